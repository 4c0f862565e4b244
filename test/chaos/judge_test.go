//go:build linux

package chaos_test

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/coordd/coordd/internal/history"
)

// settle holds I3, and with the history I1 and I2: from now on, when all faults are over, the
// service has to be whole within the bound.
func (w *world) settle(what string) {
	w.t.Helper()
	calm := time.Now()
	for {
		why := ""
		var procs []string
		for _, m := range w.member {
			if !m.now.Running() {
				w.t.Fatalf("%s does not run", m.now.proc)
			}
			procs = append(procs, m.now.proc)
		}
		why = w.ledger.unlike(w.workload(), procs)
		took := time.Since(calm)
		if why == "" {
			w.t.Logf("%s: whole %v after %s (bound %v)", w.name, took.Round(time.Millisecond), what,
				healed)
			w.tell("whole %v after %s", took.Round(time.Millisecond), what)
			break
		}
		if took > healed {
			w.t.Fatalf("not whole %v after %s: %s", healed, what, why)
		}
		time.Sleep(50 * time.Millisecond)
	}
	w.judge(calm)
	if err := w.lost(); err != nil {
		w.t.Error(err)
	}
	if w.t.Failed() {
		w.t.FailNow()
	}
}

func (w *world) judge(calm time.Time) {
	w.t.Helper()
	// Views of the keys arrive after what follows from them: let the last ones in.
	report := w.ledger.judge(calm, 1)
	for range 100 {
		if calm.IsZero() || len(report.Breaches) > 0 || report.Settled >= 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
		report = w.ledger.judge(calm, 1)
	}
	w.ledger.mu.Lock()
	faults := w.ledger.faults
	w.ledger.mu.Unlock()
	for i, f := range faults {
		if i < 10 {
			w.t.Error(f)
		}
	}
	w.report("the children and the keys", report, w.ledger.history.Events())
	own, err := w.diaries()
	if err != nil {
		w.t.Error(err)
	}
	// A clean stop or a death ends a history; the calm of a storm is judged above, of what really
	// runs.
	w.report("the members' own word", history.Check(own, history.Options{}), own)
}

// diaries are what the members have written down themselves: above all, who led when.
func (w *world) diaries() ([]history.Event, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all [][]history.Event
	for _, p := range w.runs {
		events, err := p.told()
		if err != nil {
			return nil, fmt.Errorf("the history of %s: %w", p.proc, err)
		}
		all = append(all, events)
	}
	return history.Merge(all...), nil
}

func (w *world) report(of string, r history.Report, events []history.Event) {
	w.t.Helper()
	if len(r.Breaches) == 0 {
		text, _, _ := strings.Cut(r.String(), "\n")
		w.t.Logf("%s: %s: %s", w.name, of, text)
		return
	}
	f, err := os.CreateTemp("", "coordd-chaos-*.history")
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	for _, e := range events {
		fmt.Fprintln(f, e)
	}
	w.t.Errorf("%s: %s\nthis history is in %s", of, r, f.Name())
}
