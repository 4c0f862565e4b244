package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/coordd/coordd/actors/operator"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (a *app) workCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "work",
		Short: "Change the workload",
		Long: `Changes the workload of a service: the items that its members share. An item is an id
without a slash, a payload that its work gets on standard input, and a weight. "coordd items" lists
the items with their states.`,
		Example: `  coordd work add device-1 device-2
  coordd work sync items.txt`,
	}, a.workAdd(), a.workRemove(), a.workImport(), a.workSync(), a.workExport())
}

// nameNew says on standard error that nobody uses a service yet: its name may be a slip.
func (a *app) nameNew(ctx context.Context, q query) {
	if unused, err := q.Unused(ctx); err == nil && unused {
		fmt.Fprintf(a.lines, "%s: the service %q is new: it has no members and no work yet\n",
			a.path, q.service)
	}
}

func (a *app) workAdd() *cobra.Command {
	var payload, payloadFile string
	var weight uint64
	c := a.ask(&cobra.Command{
		Use:   "add ITEM...",
		Short: "Add items",
		Long: `Adds items to the workload, all with the same payload and weight. An item that is
there already gets them. What is not given stays as it is: --weight alone keeps the payload. Running
work sees a new payload when it is started next ("coordd run --help", --on-change). All ids are
checked before anything is written.`,
		Example: `  coordd work add device-1 device-2
  coordd work add report --payload '{"every": "5m"}' --weight 3
  coordd work add report --payload-file report.json`,
	}, oneMore, func(f *pflag.FlagSet) {
		f.StringVar(&payload, "payload", "", "The payload, as `text`.")
		f.StringVar(&payloadFile, "payload-file", "",
			"The `file` that holds the payload; - means standard input.")
		f.Uint64Var(&weight, "weight", 1,
			"The `weight` of each item: how much of a member's share it takes; at least 1.")
		orders(f, "payload-file")
	}, func(ctx context.Context, q query) error {
		var value []byte // nil: not given
		if q.flags.Changed("payload") {
			value = append([]byte{}, payload...)
		}
		if payloadFile != "" {
			var err error
			if value, err = a.readAll(payloadFile); err != nil {
				return usage("--payload-file: %v", err)
			}
		}
		if !q.flags.Changed("weight") {
			weight = 0
		} else if weight == 0 {
			return usage("--weight 0: give 1 or more")
		}
		items := make([]operator.WorkInput, len(q.args))
		for i, id := range q.args {
			items[i] = operator.WorkInput{ID: id, Payload: value, Weight: weight}
		}
		a.nameNew(ctx, q)
		if err := q.AddWork(ctx, items...); err != nil {
			return err
		}
		return a.tell(q.asJSON, map[string]any{"added": q.args}, "")
	})
	c.MarkFlagsMutuallyExclusive("payload", "payload-file")
	return c
}

// maxInput is more than any value or workload may have, in bytes.
const maxInput = 512 << 20

// readAll reads a file; - means standard input.
func (a *app) readAll(file string) ([]byte, error) {
	in := a.in
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	return readAtMost(in, maxInput)
}

// readAtMost reads all of it, and cuts nothing off.
func readAtMost(in io.Reader, most int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(in, most+1))
	if err == nil && int64(len(text)) > most {
		return nil, fmt.Errorf("it has more than %d bytes: give it in parts", most)
	}
	return text, err
}

func (a *app) workRemove() *cobra.Command {
	return a.ask(&cobra.Command{
		Use:   "rm ITEM...",
		Short: "Remove items",
		Long: `Removes items from the workload: their owners stop working on them. Those that exist
are removed also when others do not; the exit code is then 1.`,
		Example: "  coordd work rm device-1 device-2",
	}, oneMore, nil, func(ctx context.Context, q query) error {
		if err := q.RemoveWork(ctx, q.args...); err != nil {
			return err
		}
		return a.tell(q.asJSON, map[string]any{"removed": q.args}, "")
	})
}

// fileHelp says what a file of items holds.
const fileHelp = `Each line of the file is an id, or an id, a tab and a payload, or a JSON object:
  {"id": "device-1", "weight": 2, "payload": "text"}
with "payload_base64" in place of "payload" for bytes that are not text. Blank lines and lines
that begin with # are skipped; - means standard input. A line that names columns, such as id, tab,
weight, is refused. The whole file is checked before anything is written. A payload or a weight that
the file does not give stays as the item has it; of a new item the payload is empty and the weight
is 1.`

// fileCommand makes c a command that reads a file of items before it asks Consul.
func (a *app) fileCommand(c *cobra.Command, flags func(*pflag.FlagSet),
	do func(ctx context.Context, q query, items []operator.WorkInput) error) *cobra.Command {
	var items []operator.WorkInput
	a.ask(c, noIDs, flags, func(ctx context.Context, q query) error {
		return do(ctx, q, items)
	})
	c.Args = func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usage("give one file, or - for standard input")
		}
		return nil
	}
	c.PreRunE = func(_ *cobra.Command, args []string) error {
		text, err := a.readAll(args[0])
		if err != nil {
			return usage("%v", err)
		}
		items, err = parseItems(args[0], text)
		return err
	}
	c.ValidArgsFunction = nil // a shell completes the names of files
	return c
}

func (a *app) workImport() *cobra.Command {
	return a.fileCommand(&cobra.Command{
		Use:   "import FILE",
		Short: "Add the items of a file",
		Long: "Adds the items of a file to the workload. " + fileHelp + `

Items that are not in the file stay: "coordd work sync" removes them.`,
		Example: `  coordd work import items.txt
  seq -f 'device-%g' 1000 | coordd work import -`,
	}, nil, func(ctx context.Context, q query, items []operator.WorkInput) error {
		a.nameNew(ctx, q)
		if err := q.AddWork(ctx, items...); err != nil {
			return err
		}
		return a.tell(q.asJSON, map[string]any{"imported": len(items)},
			count(len(items), "item")+" imported.")
	})
}

// itemLine is a line of JSON in a file of items.
type itemLine struct {
	ID      string  `json:"id"`
	Weight  uint64  `json:"weight,omitempty"`
	Payload *string `json:"payload,omitempty"`
	Bytes   *[]byte `json:"payload_base64,omitempty"`
}

// parseItems reads a file of items. Errors are bad usage, and name file and line.
func parseItems(name string, text []byte) ([]operator.WorkInput, error) {
	var items []operator.WorkInput
	first := map[string]int{} // the line that an id came on
	n := 0
	for text := range bytes.Lines(bytes.TrimPrefix(text, []byte("\ufeff"))) {
		n++
		line := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") && !isHeading(line) {
			continue
		}
		w, err := parseItem(line, len(items) == 0)
		if err == nil {
			err = w.Check()
		}
		if err != nil {
			return nil, usage("%s:%d: %v", name, n, err)
		}
		if before, ok := first[w.ID]; ok {
			return nil, usage("%s:%d: item %q came on line %d already", name, n, w.ID, before)
		}
		first[w.ID] = n
		items = append(items, w)
	}
	return items, nil
}

// columns are the names that a heading gives to what a line has.
var columns = []string{"id", "item", "item_id", "name", "key", "weight", "payload",
	"payload_base64", "value", "data"}

// isHeading tells whether a line names columns, as spreadsheets write it: it is no item. The word
// id alone does; any other word alone is an item, or a comment.
func isHeading(line string) bool {
	names := strings.FieldsFunc(strings.ToLower(strings.TrimPrefix(line, "#columns:")),
		func(r rune) bool { return strings.ContainsRune("\t,;|", r) })
	for i, name := range names {
		if names[i] = strings.Trim(name, "# \"'"); !slices.Contains(columns, names[i]) {
			return strings.HasPrefix(line, "#columns:")
		}
	}
	return len(names) > 1 || len(names) == 1 && names[0] == "id" && line[0] != '#'
}

// parseItem reads one line. A weight of 0 means that the line names none. A first line of the word
// id and more words is a heading, whatever the other columns are called.
func parseItem(line string, first bool) (w operator.WorkInput, err error) {
	if !strings.HasPrefix(line, "{") {
		id, payload, more := strings.Cut(line, "\t")
		if more {
			w.Payload = []byte(payload)
		}
		words := strings.Fields(line)
		named := first && len(words) > 1 && strings.EqualFold(words[0], "id")
		if w.ID = id; named || isHeading(line) || strings.HasPrefix(id, "[") {
			err = errors.New("this names columns or begins a list, and is no item: leave it out; " +
				"an item is an id, an id and a payload with a tab between, or a JSON object")
		}
		return w, err
	}
	var in itemLine
	d := json.NewDecoder(strings.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return w, fmt.Errorf("%w: give one object such as {\"id\": \"device-1\", \"weight\": 2}",
			err)
	}
	if _, err := d.Token(); err != io.EOF {
		return w, errors.New("more than one object: give each a line of its own")
	}
	w = operator.WorkInput{ID: in.ID, Weight: in.Weight}
	if in.Payload != nil {
		w.Payload = append([]byte{}, *in.Payload...)
	}
	if in.Bytes != nil {
		w.Payload = *in.Bytes
	}
	return w, nil
}

func (a *app) workExport() *cobra.Command {
	return a.ask(&cobra.Command{
		Use:   "export",
		Short: "Print the workload",
		Long: `Prints the items of the workload with their weights and payloads, one JSON object on
a line, as "coordd work import" and "coordd work sync" read them.`,
		Example: "  coordd work export > items.jsonl",
	}, noIDs, nil, func(ctx context.Context, q query) error {
		work, err := q.ListWork(ctx)
		if err != nil {
			return err
		}
		return printWork(a.out, work)
	})
}

// printWork prints items as parseItem reads them.
func printWork(w io.Writer, work []operator.WorkInput) error {
	var b bytes.Buffer
	for _, item := range work {
		text := string(item.Payload)
		line := itemLine{ID: item.ID, Weight: item.Weight, Payload: &text}
		if !utf8.Valid(item.Payload) {
			line.Payload, line.Bytes = nil, &item.Payload
		}
		if err := printLine(&b, line); err != nil {
			return err
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (a *app) workSync() *cobra.Command {
	var dryRun, force bool
	return a.fileCommand(&cobra.Command{
		Use:   "sync FILE",
		Short: "Make the workload what a file says",
		Long: `Adds the items of a file, changes those that differ and removes those that are not in
it, and prints each: + is added, ~ is changed, - is removed. ` + fileHelp + `

To remove all items, or more than half of the workload and more than 10 items, needs --force.`,
		Example: `  coordd work sync items.txt --dry-run
  coordd work sync items.txt`,
	}, func(f *pflag.FlagSet) {
		f.BoolVar(&dryRun, "dry-run", false, "Say what would change, and change nothing.")
		f.BoolVar(&force, "force", false, "Remove also all of the workload, or most of it.")
		orders(f, "dry-run", "force")
	}, func(ctx context.Context, q query, items []operator.WorkInput) error {
		a.nameNew(ctx, q)
		d, err := q.SyncWork(ctx, items, operator.SyncOptions{DryRun: dryRun, Force: force})
		if !q.asJSON {
			for _, line := range d.Lines {
				if _, err := fmt.Fprintln(a.out, safe(line)); err != nil {
					return err
				}
			}
		}
		if errors.Is(err, operator.ErrRemovesMost) {
			if err = fmt.Errorf("%w: give --force if that is meant", err); dryRun {
				fmt.Fprintf(a.lines, "%s: without --dry-run this is refused: %v\n", a.path, err)
				err = nil
			}
		}
		if err != nil {
			return err
		}
		text := "%d added, %d changed, %d removed, %d as they were."
		if dryRun {
			text = "%d to add, %d to change, %d to remove, %d as they were."
		}
		return a.tell(q.asJSON, d, fmt.Sprintf(text, len(d.Add), len(d.Change), len(d.Remove),
			d.Same))
	})
}
