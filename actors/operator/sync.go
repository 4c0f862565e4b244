package operator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// ErrRemovesMost is returned by [Client.SyncWork] when most of the workload would be removed and
// Force does not say that this is meant. Nothing is changed.
var ErrRemovesMost = errors.New("would be removed")

// fewRemoved is how many items a sync removes without Force, however small the workload is.
const fewRemoved = 10

// SyncOptions say how the workload is made what a list says. The zero value changes it.
type SyncOptions struct {
	DryRun bool // says what would change, and changes nothing
	// Force removes also all of the workload, or more than half of it and more than 10 items.
	Force bool
}

// WorkDiff is the difference between the workload and a list. Its JSON form is that of
// `coordd work sync --json`.
type WorkDiff struct {
	Add    []string `json:"add"`
	Change []string `json:"change"`
	Remove []string `json:"remove"`
	Same   int      `json:"unchanged"`
	DryRun bool     `json:"dry_run"`
	// Lines say it for people, each item in one line that begins with +, ~ or -.
	Lines []string `json:"-"`
}

// SyncWork makes the workload what a list says: it adds and changes items, and then removes those
// that are not in the list, so that most of the workload is never gone. What the list does not give
// of an item stays as it is. Errors: [ErrRemovesMost], and as for AddWork; the difference is
// complete with them.
func (c *Client) SyncWork(ctx context.Context, items []WorkInput, o SyncOptions) (WorkDiff, error) {
	if err := CheckWork(items); err != nil {
		return WorkDiff{}, err
	}
	work, err := c.ListWork(ctx)
	if err != nil {
		return WorkDiff{}, err
	}
	d, write := compare(work, items)
	d.DryRun = o.DryRun
	if gone := len(d.Remove); gone > 0 && !o.Force &&
		(gone == len(work) && len(d.Add) == 0 || gone > fewRemoved && 2*gone > len(work)) {
		return d, fmt.Errorf("%d of the %d items of the workload %w", gone, len(work), ErrRemovesMost)
	}
	if o.DryRun {
		return d, nil
	}
	if err := c.AddWork(ctx, write...); err != nil || len(d.Remove) == 0 {
		return d, err
	}
	// Another operator may have removed an item meanwhile.
	if err := c.RemoveWork(ctx, d.Remove...); !errors.Is(err, ErrNotFound) {
		return d, err
	}
	return d, nil
}

// compare finds the difference, and what is to be written for it.
func compare(work, list []WorkInput) (d WorkDiff, write []WorkInput) {
	d = WorkDiff{Add: []string{}, Change: []string{}, Remove: []string{}}
	have := make(map[string]WorkInput, len(work))
	for _, w := range work {
		have[w.ID] = w
	}
	wanted := make(map[string]bool, len(list))
	for _, w := range list {
		wanted[w.ID] = true
		was, there := have[w.ID]
		what := ""
		if w.Payload != nil && !bytes.Equal(w.Payload, was.Payload) {
			what += "  another payload"
		}
		if w.Weight != 0 && w.Weight != was.Weight {
			what += fmt.Sprintf("  weight %d -> %d", was.Weight, w.Weight)
		}
		switch {
		case !there:
			d.Add = append(d.Add, w.ID)
			d.Lines = append(d.Lines, "+ "+w.ID)
		case what == "":
			d.Same++
			continue
		default:
			d.Change = append(d.Change, w.ID)
			d.Lines = append(d.Lines, "~ "+w.ID+what)
		}
		write = append(write, w)
	}
	for _, w := range work {
		if !wanted[w.ID] {
			d.Remove = append(d.Remove, w.ID)
			d.Lines = append(d.Lines, "- "+w.ID)
		}
	}
	return d, write
}
