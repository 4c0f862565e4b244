package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/coordd/coordd/actors"
	"github.com/spf13/cobra"
)

func (a *app) workExport(s *serviceFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "export [FILE]",
		Short: "Write the workload to a file",
		Long: `Writes the items of the workload, with weights and payloads, as "coordd work import"
and "coordd work sync" read them; without a file, or with -, to standard output. A payload that
is binary, has several lines or holds what a terminal obeys, tabs aside, is written in base64;
so is an id that holds such. The file is replaced as a whole. In a directory that is shared,
such as /tmp, it is neither a link nor a file of another user.`,
		Example: `  coordd work export items.txt
  coordd work export | grep -c .`,
		Args: oneFileAtMost,
		RunE: a.does(func(ctx context.Context, args []string) error {
			o, err := s.reached(ctx)
			if err != nil {
				return err
			}
			work, err := o.ListWork(ctx)
			if err != nil {
				return err
			}
			text := formatItems(work)
			if len(args) == 1 && args[0] != "-" {
				return writeWhole(ctx, args[0], text)
			}
			_, err = a.out.Write(text)
			return err
		}),
	}
}

// difference is what makes the workload what a file says. Its JSON form is that of --json.
type difference struct {
	Add    []string     `json:"add"`
	Change []itemChange `json:"change"`
	Remove []string     `json:"remove"`
	Same   int          `json:"unchanged"`
	DryRun bool         `json:"dry_run"`

	write []actors.WorkInput
	at    map[string]string // who runs what is to be removed
}

// itemChange is how an item of the workload changes.
type itemChange struct {
	ID            string `json:"id"`
	Payload       bool   `json:"payload"` // it has another payload
	PayloadBefore int    `json:"payload_bytes_before"`
	PayloadAfter  int    `json:"payload_bytes_after"`
	WeightBefore  uint64 `json:"weight_before"`
	WeightAfter   uint64 `json:"weight_after"`
}

// compare finds the difference. An item of the file without a weight keeps the one that it has.
func compare(work []actors.WorkStatus, file []actors.WorkInput) difference {
	d := difference{Add: []string{}, Change: []itemChange{}, Remove: []string{},
		at: map[string]string{}}
	have := make(map[string]actors.WorkStatus, len(work))
	for _, w := range work {
		have[w.ID] = w
	}
	wanted := make(map[string]bool, len(file))
	for _, w := range file {
		wanted[w.ID] = true
		was, there := have[w.ID]
		if w.Weight == 0 {
			w.Weight = max(1, was.Weight)
		}
		switch c := (itemChange{w.ID, !bytes.Equal(w.Payload, was.Payload), len(was.Payload),
			len(w.Payload), was.Weight, w.Weight}); {
		case !there:
			d.Add = append(d.Add, w.ID)
		case c.Payload || c.WeightBefore != c.WeightAfter:
			d.Change = append(d.Change, c)
		default:
			d.Same++
			continue
		}
		d.write = append(d.write, w)
	}
	for _, w := range work {
		if !wanted[w.ID] {
			d.Remove = append(d.Remove, w.ID)
			d.at[w.ID] = w.Member
		}
	}
	return d
}

// fewRemoved is how many items a sync removes without --force, however small the workload is.
const fewRemoved = 10

// tooMuch says why a difference needs --force; empty: it does not.
func (d difference) tooMuch() string {
	before := d.Same + len(d.Change) + len(d.Remove)
	switch gone := len(d.Remove); {
	case gone == 0:
		return ""
	case gone == before && len(d.Add) == 0:
		return fmt.Sprintf("the file has no items, and all %d of the workload would be removed: "+
			"give --force if that is meant", before)
	case gone > fewRemoved && 2*gone > before:
		return fmt.Sprintf("%d of the %d items of the workload would be removed: give --force if "+
			"that is meant", gone, before)
	}
	return ""
}

func (a *app) workSync(s *serviceFlags) *cobra.Command {
	var dryRun, force, asJSON bool
	cmd := &cobra.Command{
		Use:   "sync FILE",
		Short: "Make the workload what a file says",
		Long: `Adds the items of a file, changes those that differ and removes those that are not in
it, and prints each: + is added, ~ is changed, - is removed. The file is as for "coordd work
import"; - means standard input, and "coordd work export" writes one. An item for which the
file names no weight keeps the one that it has. All of the file is checked before anything
is written. Running work sees a new payload when it is
next started, or soon, with run --on-change restart.

A file without items, or one that would remove more than half of the workload and more
than 10 items, is refused without --force. What somebody else adds meanwhile is left alone.`,
		Example: `  coordd work sync items.txt --dry-run
  coordd work sync items.txt`,
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
			work, err := o.ListWork(ctx)
			if err != nil {
				return err
			}
			if len(work) == 0 {
				a.warnOfNew(newService(ctx, o, s.service))
			}
			d := compare(work, items)
			if d.DryRun = dryRun; !asJSON {
				if err := printDifference(a.out, d); err != nil {
					return err
				}
			}
			if refused := d.tooMuch(); refused != "" && !force {
				if !dryRun {
					return errors.New(refused)
				}
				fmt.Fprintf(a.lines, "%s: without --dry-run this is refused: %s\n", a.path, refused)
			}
			if !dryRun {
				if err := a.sync(ctx, o, d); err != nil {
					return err
				}
			}
			if asJSON {
				return printJSON(a.out, d)
			}
			_, err = fmt.Fprintln(a.out, d.summary())
			return err
		}),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&dryRun, "dry-run", false, "Say what would change, and change nothing.")
	f.BoolVar(&force, "force", false, "Remove also all of the workload, or most of it.")
	jsonFlag(cmd, &asJSON, "Print JSON, with all items that differ.")
	orders(f, "dry-run", "force")
	return cmd
}

// sync carries a difference out: first what there is more, so that it is never most of the workload
// that is gone.
func (a *app) sync(ctx context.Context, o *actors.Operator, d difference) error {
	if len(d.write) > 0 {
		progress, finish := a.progress(len(d.write), "items")
		err := o.ImportWork(ctx, d.write, progress)
		finish()
		if err != nil {
			return err
		}
	}
	if len(d.Remove) == 0 {
		return nil
	}
	// What somebody else has removed meanwhile is as it should be.
	if err := o.RemoveWork(ctx, d.Remove...); err != nil && !errors.Is(err, actors.ErrNotFound) {
		return err
	}
	return nil
}

func (d difference) summary() string {
	tense := map[bool][3]string{false: {"added", "changed", "removed"},
		true: {"to add", "to change", "to remove"}}[d.DryRun]
	return fmt.Sprintf("%d %s, %d %s, %d %s, %d as they were.", len(d.Add), tense[0], len(d.Change),
		tense[1], len(d.Remove), tense[2], d.Same)
}

// maxShown is how many lines a difference has for each kind of change.
const maxShown = 100

func printDifference(w io.Writer, d difference) error {
	var b strings.Builder
	for _, id := range d.Add[:min(len(d.Add), maxShown)] {
		fmt.Fprintf(&b, "+ %s\n", foreign(id))
	}
	more(&b, "+", len(d.Add))
	for _, c := range d.Change[:min(len(d.Change), maxShown)] {
		var what []string
		if c.Payload {
			what = append(what, fmt.Sprintf("payload %d -> %s", c.PayloadBefore,
				count(c.PayloadAfter, "byte")))
		}
		if c.WeightBefore != c.WeightAfter {
			what = append(what, fmt.Sprintf("weight %d -> %d", c.WeightBefore, c.WeightAfter))
		}
		fmt.Fprintf(&b, "~ %s  %s\n", foreign(c.ID), strings.Join(what, ", "))
	}
	more(&b, "~", len(d.Change))
	for _, id := range d.Remove[:min(len(d.Remove), maxShown)] {
		fmt.Fprintf(&b, "- %s", foreign(id))
		if at := d.at[id]; at != "" {
			fmt.Fprintf(&b, "  runs at %s", foreign(at))
		}
		b.WriteByte('\n')
	}
	more(&b, "-", len(d.Remove))
	_, err := io.WriteString(w, b.String())
	return err
}

func more(b *strings.Builder, sign string, n int) {
	if n > maxShown {
		fmt.Fprintf(b, "%s ... and %s more (--json lists all)\n", sign, count(n-maxShown, "item"))
	}
}
