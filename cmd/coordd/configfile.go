package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/coordd/coordd/actors/configstore"
	"github.com/spf13/cobra"
)

// listedConfig is one key in the JSON of a list.
type listedConfig struct {
	Key   string `json:"key"`
	Index uint64 `json:"index"`
	// One of the two: JSON holds text only.
	Value       *string `json:"value,omitempty"`
	ValueBase64 []byte  `json:"value_base64,omitempty"`
}

func listedOf(e configstore.Entry) listedConfig {
	l := listedConfig{Key: e.Key, Index: e.Index}
	if utf8.Valid(e.Value) {
		text := string(e.Value)
		l.Value = &text
	} else {
		l.ValueBase64 = e.Value
	}
	return l
}

// exported is one line of an export and of a watch. An import reads key and one of the two values.
type exported struct {
	listedConfig
	Deleted bool `json:"deleted,omitempty"`
}

func (e exported) print(w io.Writer) error {
	var b bytes.Buffer
	j := json.NewEncoder(&b)
	j.SetEscapeHTML(false)
	if err := j.Encode(e); err != nil {
		return err
	}
	_, err := w.Write(plainJSON(b.Bytes()))
	return err
}

func (a *app) configExport(s *serviceFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "export [FILE]",
		Short: "Write all keys and values to a file",
		Long: `Writes all keys with their values, as they are at one moment, to standard output or
a file: a line of JSON for each, {"key": ..., "index": ..., "value": ...}, or
"value_base64" for a value that is not text. Import reads it. A file that is there
is replaced as a whole, or stays as it was; where its directory may not be written to
it is written over. In a directory that is shared, such as /tmp, it is neither a link nor
a file of another user.`,
		Example: "  coordd config export > config.jsonl",
		Args:    oneFileAtMost,
		RunE: a.does(func(ctx context.Context, args []string) error {
			entries, err := a.configEntries(ctx, s, nil)
			if err != nil {
				return err
			}
			var b bytes.Buffer
			for _, e := range entries {
				if err := (exported{listedConfig: listedOf(e)}).print(&b); err != nil {
					return err
				}
			}
			if len(args) == 0 || args[0] == "-" {
				_, err = a.out.Write(b.Bytes())
				return err
			}
			return writeWhole(ctx, args[0], b.Bytes())
		}),
	}
}

func (a *app) configImport(s *serviceFlags) *cobra.Command {
	var w writeFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Write the keys of a file",
		Long: `Writes the keys of a file; - means standard input. Each line is JSON as export
writes it: {"key": "limits/rate", "value": "50"}, or "value_base64" for any bytes;
an index is not looked at. Blank lines and lines that begin with # are skipped. The
whole file is checked before anything is written: a line that cannot be is refused,
with its number.

Keys that are not in the file stay as they are. The file is written in transactions of up to
63 keys; importing it again is safe.`,
		Example: `  coordd config import config.jsonl
  coordd config export --service old | coordd config import - --service new`,
		Args: exactly(1, "one file, or - for standard input"),
	}
	cmd.RunE = a.does(func(ctx context.Context, args []string) error {
		ops, err := reading(ctx, func() ([]configstore.Op, error) {
			name, in := "standard input", a.in
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return nil, usage("%v", err)
				}
				defer f.Close()
				name, in = args[0], f
			}
			return parseConfig(name, in)
		})
		if err != nil {
			return err
		}
		if len(ops) == 0 && w.log == "" {
			return a.tellImported(asJSON, 0, "key")
		}
		progress, finish := a.progress(len(ops), "keys")
		err = a.writing(ctx, s, w, func(ctx context.Context, c *configstore.Store) error {
			if len(ops) == 0 {
				return leftSent(ctx, c)
			}
			done := 0
			for _, txn := range inTransactions(ops, configstore.Check) {
				if _, err := c.Txn(ctx, txn...); err != nil {
					return fmt.Errorf("%d of %s are written; import the file again to go on: %w",
						done, count(len(ops), "key"), err)
				}
				if done += len(txn); progress != nil {
					progress(done)
				}
			}
			return nil
		})
		finish()
		if err != nil {
			return err
		}
		return a.tellImported(asJSON, len(ops), "key")
	})
	jsonFlag(cmd, &asJSON, "Print JSON: how many.")
	w.register(cmd)
	return cmd
}

// parseConfig reads the import format. Errors are bad usage, and name file and line.
func parseConfig(name string, in io.Reader) ([]configstore.Op, error) {
	var ops []configstore.Op
	first := map[string]int{} // the line that a key came on
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 4*maxLine)
	n := 0
	for lines.Scan() {
		n++
		line := bytes.TrimSpace(lines.Bytes())
		if n == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		op, err := parseConfigLine(line)
		if err != nil {
			return nil, usage("%s:%d: %v", name, n, err)
		}
		if before, ok := first[op.Key()]; ok {
			return nil, usage("%s:%d: key %q came on line %d already", name, n, op.Key(), before)
		}
		first[op.Key()] = n
		ops = append(ops, op)
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, usage("%s:%d: the line has more than %d bytes; a value may have %d", name, n+1,
			4*maxLine, configstore.MaxValue)
	} else if err != nil {
		return nil, usage("%s:%d: %v", name, n+1, err)
	}
	return ops, nil
}

func parseConfigLine(line []byte) (configstore.Op, error) {
	var none configstore.Op
	if !utf8.Valid(line) {
		return none, errors.New(`it is not UTF-8; bytes that are not text go into "value_base64"`)
	}
	// Pointers tell an empty value from a missing one.
	var in struct {
		Key    *string `json:"key"`
		Index  uint64  `json:"index"`
		Value  *string `json:"value"`
		Base64 *[]byte `json:"value_base64"`
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return none, fmt.Errorf(`it is not JSON such as {"key": "k", "value": "v"}: %s`,
			strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return none, errors.New("there is more on the line than one key")
	}
	switch {
	case in.Key == nil:
		return none, errors.New(`it has no "key"`)
	case in.Value == nil && in.Base64 == nil:
		return none, errors.New(`it has neither "value" nor "value_base64"`)
	case in.Value != nil && in.Base64 != nil:
		return none, errors.New(`it has both "value" and "value_base64"`)
	}
	var value []byte
	if in.Value != nil {
		// The decoder makes the replacement character of half a surrogate pair.
		if strings.ContainsRune(*in.Value, utf8.RuneError) &&
			!bytes.ContainsRune(line, utf8.RuneError) && !bytes.Contains(bytes.ToLower(line),
			[]byte(`\ufffd`)) {
			return none,
				errors.New(`its "value" holds half a surrogate pair (\ud800 to \udfff), which is ` +
					`no text; bytes go into "value_base64"`)
		}
		value = []byte(*in.Value)
	} else {
		value = *in.Base64
	}
	op := configstore.Set(*in.Key, value)
	return op, configstore.Check(op)
}
