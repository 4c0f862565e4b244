package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/internal/printable"
)

// readyCheck is one thing that a process has to be to be ready.
type readyCheck struct {
	name string
	fail func(s *site, now time.Time) error // why it is not; nil: it is
}

// readyChecks are all of them, in the order in which they are shown.
var readyChecks = []readyCheck{
	{"lease", (*site).health},
	{"assignments", (*site).assigned},
	{"work", (*site).working},
}

// assigned tells which member has not read what is assigned to it, or waits for a former process.
func (s *site) assigned(now time.Time) error {
	var errs []error
	for i, own := range s.own.look(context.Background()).own {
		m := s.Members[i]
		switch n := own.States[operator.ItemWaiting]; {
		case !own.Known:
			errs = append(errs, fmt.Errorf("%s has not read what is assigned to it", m.ID()))
		case n > 0:
			errs = append(errs, fmt.Errorf("items of %s wait for its former process: %d, for %v "+
				"at the most", m.ID(), n, max(0, own.ClearAt.Sub(now)).Round(time.Second)))
		}
	}
	return errors.Join(errs...)
}

// working tells which member has work that ends again and again, or ignores its order to stop.
func (s *site) working(time.Time) error {
	var errs []error
	for i, own := range s.own.look(context.Background()).own {
		if n := own.States[operator.ItemLooping]; n > 0 {
			errs = append(errs, fmt.Errorf("work of %s ends again and again: %d (%s)",
				s.Members[i].ID(), n, named(own.Looping)))
		}
		if n := own.States[operator.ItemStuck]; n > 0 {
			errs = append(errs, fmt.Errorf("work of %s ignores its order to stop: %d (%s)",
				s.Members[i].ID(), n, named(own.Stuck)))
		}
	}
	return errors.Join(errs...)
}

// named is a list of at most three ids.
func named(ids []string) string {
	if len(ids) > 3 {
		return strings.Join(ids[:3], ", ") + ", …"
	}
	return strings.Join(ids, ", ")
}

// ready answers as /readyz of Kubernetes' own servers does: 200 if all checks hold, but those that
// ?exclude= names. ?verbose lists those that hold as well.
func (s *site) ready(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	q, err := queryOf(r, []string{"exclude", "verbose"})
	without := list(q, "exclude")
	for _, name := range without {
		if !slices.ContainsFunc(readyChecks, func(c readyCheck) bool { return c.name == name }) {
			err = fmt.Errorf("exclude=%s: give lease, assignments or work", quote(name))
		}
	}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintln(w, printable.Line(err.Error()))
		return
	}
	var lines []string
	status, now := http.StatusOK, time.Now()
	for _, c := range readyChecks {
		line := "[+]" + c.name + " ok"
		if slices.Contains(without, c.name) {
			line = "[+]" + c.name + " excluded: ok"
		} else if err := s.reasonFor(r, c.fail(s, now)); err != nil {
			line, status = "[-]"+c.name+" failed: "+printable.Line(err.Error()),
				http.StatusServiceUnavailable
		}
		if q.Has("verbose") || line[1] == '-' {
			lines = append(lines, line)
		}
	}
	if status == http.StatusOK {
		lines = append(lines, "ok")
	}
	w.WriteHeader(status)
	fmt.Fprintln(w, strings.Join(lines, "\n"))
}
