package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/coordd/coordd/actors"
	"github.com/spf13/cobra"
)

func (a *app) workImport(s *serviceFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Add the items of a file",
		Long: `Adds the items of a file to the workload; - means standard input. Each line holds
an id, or an id, a tab and a payload. Blank lines and lines that begin with # are
skipped. The whole file is checked before anything is written: an id that comes
twice or cannot be is refused, with its line.

A first line such as "#columns: id weight payload" names the columns that the lines have,
divided by tabs, with the payload last; "coordd work export" writes such a file. A column
"encoding" says "text" or "base64" of the payload, and a column "id-encoding" of the id.

Items that are in the workload already keep their place, and get the payload of the
file and its weight, which is 1 where it names none: one that has both does not change at
all. Importing a file again is safe, but for weights that were set with "coordd work add".
Items that are not in the file stay: "coordd work sync" removes them.`,
		Example: `  coordd work import items.txt
  seq -f 'device-%g' 1000 | coordd work import -`,
		Args: exactly(1, "one file, or - for standard input"),
		RunE: a.does(func(ctx context.Context, args []string) error {
			items, err := reading(ctx, func() ([]actors.WorkInput, error) {
				return a.readItems(args[0])
			})
			if err != nil {
				return err
			}
			o, err := s.reached(ctx)
			if err != nil {
				return err
			}
			said := newService(ctx, o, s.service)
			progress, finish := a.progress(len(items), "items")
			err = o.ImportWork(ctx, items, progress)
			finish()
			if err != nil {
				return err
			}
			a.warnOfNew(said)
			return a.tellImported(asJSON, len(items), "item")
		}),
	}
	jsonFlag(cmd, &asJSON, "Print JSON: how many.")
	return cmd
}

// tellImported says how many of what an import has written.
func (a *app) tellImported(asJSON bool, n int, what string) error {
	return a.tell(asJSON, changedWork{Imported: &n}, count(n, what)+" imported.")
}

func (a *app) readItems(file string) ([]actors.WorkInput, error) {
	name, in := "standard input", a.in
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, usage("%v", err)
		}
		defer f.Close()
		name, in = file, f
	}
	return parseItems(name, in)
}

// maxLine is the longest line of an import: an id and the largest payload.
const maxLine = 1 << 20

// parseItems reads the import format. Errors are bad usage, and name file and line.
func parseItems(name string, in io.Reader) ([]actors.WorkInput, error) {
	var items []actors.WorkInput
	first := map[string]int{} // the line that an id came on
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	var columns []string
	n := 0
	for lines.Scan() {
		n++
		line := strings.TrimSuffix(lines.Text(), "\r")
		if n == 1 {
			line = strings.TrimPrefix(line, "\ufeff") // some editors put it there
		}
		if named, ok := strings.CutPrefix(line, columnsLine); ok && n == 1 {
			var err error
			if columns, err = parseColumns(named); err != nil {
				return nil, usage("%s:1: %v", name, err)
			}
			continue
		}
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if columns == nil && len(items) == 0 && looksLikeJSON(line) {
			return nil, usage(notLines, name, n)
		}
		w, err := parseLine(line, columns)
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
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, usage("%s:%d: the line has more than %d bytes; a payload may have %d", name,
			n+1, maxLine, actors.MaxPayload)
	} else if err != nil {
		return nil, usage("%s:%d: %v", name, n+1, err)
	}
	return items, nil
}

// notLines is what is said of a file and a line that hold JSON.
const notLines = "%s:%d: this is JSON, and a line here is an id, or an id, a tab and a payload. " +
	`Make lines of it, such as: jq -r '.[] | .id + "\t" + .payload'. ` +
	`"coordd work export" writes what import reads. If the line is an id, begin the file with ` +
	`"#columns: id payload"`

// looksLikeJSON tells whether the first line of a file begins a JSON object or a list.
func looksLikeJSON(line string) bool {
	line = strings.TrimSpace(line)
	if line == "[" || line == "{" {
		return true
	}
	d := json.NewDecoder(strings.NewReader(line))
	first, err := d.Token()
	if _, opens := first.(json.Delim); err != nil || !opens {
		return false
	}
	_, err = d.Token() // a string, a number, or what ends an empty list
	return err == nil
}

// progress shows a line that grows, when there is enough to wait for and someone to see it.
func (a *app) progress(total int, what string) (func(done int), func()) {
	f := a.terminal()
	if f == nil || total < 5_000 {
		return nil, func() {}
	}
	shown := -1
	return func(done int) {
			if percent := done * 100 / total; percent != shown {
				shown = percent
				fmt.Fprintf(f, "\r%d of %d %s (%d%%)", done, total, what, percent)
			}
		}, func() {
			if shown >= 0 {
				fmt.Fprint(f, "\r\033[K")
			}
		}
}
