package configstore_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/configstore"
)

// cutOffAfter has the answer to the next request lost, and then everything.
func (h *host) cutOffAfter() { h.cutOffAfterTxn(1) }

// cutOffAfterTxn does so with the n-th of the next transactions.
func (h *host) cutOffAfterTxn(n int) {
	h.net.Next(n, func(req *http.Request) (*http.Response, error) {
		defer h.net.Cut(errors.New("cut off"))
		return h.net.Lose(req)
	})
}

// begins has a write under way, and returns its outcome later. The write has been applied, and the
// store is cut off.
func (h *host) begins(write func() error) (outcome <-chan error) {
	h.rig.t.Helper()
	h.cutOffAfter()
	done := make(chan error, 1)
	go func() { done <- write() }()
	synctest.Wait()
	return done
}

func (r *rig) isUnknown(err error) {
	r.t.Helper()
	if !errors.Is(err, configstore.ErrUnreachable) || errors.Is(err, configstore.ErrConflict) {
		r.t.Errorf("nobody can tell whether it was applied, and the caller hears: %v", err)
	}
}

// No stranger has a part in the marker's end: who stops cleanly deletes it.
func TestAPutIsNotDoneTwiceWhenAnotherOfItsNameHadTheMarkerMeanwhileAndStopped(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		var log lines
		one := func(c *configstore.Config) { c.Owner = "one" }
		a := r.start(one, func(c *configstore.Config) {
			c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		}).ready()
		a.put("other", "0")
		put := a.begins(func() error {
			_, err := a.Put(r.ctx(time.Minute), "k", []byte("1"))
			return err
		})
		r.expect("k", r.raw("config_data/k"), "1")
		b := r.start(one, elsewhere).ready()
		b.put("other", "1")
		b.stop()
		r.expect("the marker", r.raw("config_log/one"), "-")
		r.strangerDeletes("config_data/k")
		a.net.Cut(nil)
		r.isUnknown(<-put)
		r.expect("writes of k", r.times("k=1"), 1)
		r.expect("k, which others have deleted", r.raw("config_data/k"), "-")
		if log.count("give each process a name of its own") != 1 {
			t.Errorf("the log names no cause but a stranger: %s", log.String())
		}
		a.put("k", "2")
	})
}

// Its condition is on a key that it does not change.
func TestATransactionWithAConditionIsNotDoneTwiceWhenTheMarkerIsGone(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.start().ready()
		lock := s.put("lock", "mine")
		for i, also := range [][]configstore.Op{
			nil,
			// Consul takes an equal value for no change: the condition on this key still holds.
			{configstore.SetAt("same", nil, s.put("same", ""))},
		} {
			key := fmt.Sprint("k", i)
			txn := s.begins(func() error {
				_, err := s.Txn(r.ctx(time.Minute), append(also, configstore.Expect("lock", lock),
					configstore.Set(key, []byte("1")))...)
				return err
			})
			r.expect(key, r.raw("config_data/"+key), "1")
			r.strangerDeletes("config_log/m1")
			r.strangerDeletes("config_data/" + key)
			s.net.Cut(nil)
			r.isUnknown(<-txn)
			r.expect("writes of "+key, r.times(key+"=1"), 1)
		}
	})
}

// A write in the log is kept for the operator then. Those behind it are applied as soon as one of
// them shows that the process before had not come so far.
func TestALoggedWriteThatMayHaveBeenAppliedIsKeptWhenTheMarkerIsGone(t *testing.T) {
	dir := t.TempDir()
	run(t, func(t *testing.T, r *rig) {
		s := r.start(logged(dir)).ready()
		s.put("other", "0")
		s.cutOffAfter()
		for _, key := range []string{"k", "other", "new"} {
			s.logs(key, "1")
		}
		s.kill()
		r.strangerDeletesAll("config_log/")
		r.strangerDeletes("config_data/k")

		next := r.start(logged(dir)).ready()
		r.await("nothing waits", time.Minute, func() bool {
			q := next.Queue().Get()
			return q.Ready && q.Waiting == 0
		})
		r.expect("writes", fmt.Sprint(r.times("k=1"), r.times("other=1"), r.times("new=1")), "1 1 1")
		r.expect("refused", next.Queue().Get().Refused, 1)
		kept, err := os.ReadFile(filepath.Join(dir, "conflicts"))
		must(t, err)
		for _, text := range []string{`"keys":["k"]`, `"value":"MQ=="`, "may have been applied"} {
			r.expect("kept: "+text, strings.Count(string(kept), text), 1)
		}
		next.put("k", "2")
	})
}

// A machine dies, and with it the marks of what is over, while strangers delete the marker and a
// key. The first write in the log can be applied whether it was or not: it shows nothing of how far
// the process came, and the second one, which was applied, may not be done again.
func TestAWriteThatChangesNothingShowsNotHowFarTheProcessBeforeCame(t *testing.T) {
	for what, first := range map[string][]configstore.Op{
		"deletes a key that there is not": {configstore.Remove("none")},
		"writes what is there":            {configstore.Set("same", []byte("1"))},
		"does both, and asks for an index": {configstore.Set("same", []byte("1")),
			configstore.Remove("none"), configstore.Expect("never", 0)},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			run(t, func(t *testing.T, r *rig) {
				var d disk
				s := r.start(logged(dir), configstore.WithSync(d.sync)).ready()
				s.put("same", "1")
				s.net.Cut(errors.New("cut off"))
				s.logsTxn(first...)
				s.logs("k", "1")
				s.net.Cut(nil)
				s.settled()
				r.expect("writes", r.times("k=1"), 1)
				s.dies(&d)
				r.strangerDeletesAll("config_log/")
				r.strangerDeletes("config_data/k")

				next := r.start(logged(dir)).ready()
				next.settled()
				r.expect("writes", r.times("k=1"), 1)
				r.expect("refused", next.Queue().Get().Refused, 1)
				next.put("k", "2")
			})
		})
	}
}

// Of the first write in the log nobody can tell whether it was applied. So it is with one that is
// based on it.
func TestAWriteThatIsBasedOnADoubtfulOneIsInDoubtAsWell(t *testing.T) {
	for what, second := range map[string][]configstore.Op{
		"writes what that made":   {configstore.Set("k", []byte("2"))},
		"deletes it":              {configstore.Remove("k")},
		"deletes it, with others": {configstore.Set("same", []byte("2")), configstore.Remove("k")},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			run(t, func(t *testing.T, r *rig) {
				var d disk
				s := r.start(logged(dir), configstore.WithSync(d.sync)).ready()
				s.put("same", "1")
				s.net.Cut(errors.New("cut off"))
				s.logs("k", "1")
				s.logsTxn(second...)
				s.net.Cut(nil)
				s.settled()
				r.expect("refused", s.Queue().Get().Refused, 0)
				s.dies(&d)
				r.strangerDeletesAll("config_log/")

				next := r.start(logged(dir)).ready()
				next.settled()
				refused := next.Queue().Get().Conflicts
				r.expect("refused", len(refused), 2)
				for _, c := range refused {
					if !strings.Contains(c.Error, "may have been applied") {
						t.Errorf("it was applied, and kept is: %s", c.Error)
					}
				}
			})
		})
	}
}
