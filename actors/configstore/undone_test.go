package configstore_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/configstore"
)

// startedAfter starts a store on the log of one that has written k. A stranger has deleted k since.
// The store must not write it again.
func (r *rig) startedAfter(dir string) {
	r.t.Helper()
	r.strangerDeletes("config_data/k")
	next := r.start(logged(dir)).ready()
	next.put("other", "2")
	r.expect("k, which was written once and deleted", r.raw("config_data/k"), "-")
	r.expect("writes", r.times("k=1"), 1)
	r.expect("refused", next.Queue().Get().Refused, 0)
}

// Without the marker only the log tells that a write was applied.
func TestAWriteIsNotAppliedAgainWhenTheDiskWasIllAtTheStop(t *testing.T) {
	dir := t.TempDir()
	run(t, func(t *testing.T, r *rig) {
		var d disk
		s := r.start(logged(dir), configstore.WithSync(d.sync)).ready()
		s.net.Cut(errors.New("cut off"))
		if _, err := s.Put(r.ctx(time.Second), "k", []byte("1")); !errors.Is(err,
			configstore.ErrPending) {
			t.Fatal(err)
		}
		d.fails.Store(true)
		if _, err := s.Put(r.ctx(time.Second), "other", []byte("1")); !errors.Is(err,
			configstore.ErrLog) {
			t.Fatal(err)
		}
		s.net.Cut(nil)
		r.await("it is through", time.Minute, func() bool {
			q := s.Queue().Get()
			return q.Ready && q.Waiting == 0
		})
		r.expect("k", r.raw("config_data/k"), "1")
		s.stop()
		r.startedAfter(dir)
	})
}

func TestAWriteIsNotAppliedAgainWhenTheMachineDiesOverTheStop(t *testing.T) {
	dir, after := t.TempDir(), t.TempDir()
	run(t, func(t *testing.T, r *rig) {
		var disk, then []byte // what the log's file holds that was fsynced
		s := r.start(logged(dir), configstore.WithSync(func(f *os.File) error {
			b, err := os.ReadFile(f.Name())
			if err != nil { // it has its last name now
				b, err = os.ReadFile(filepath.Join(dir, "log"))
			}
			if err == nil {
				disk = b
			}
			return f.Sync()
		})).ready()
		s.put("k", "1")
		s.net.Next(1, func(req *http.Request) (*http.Response, error) { // the marker goes
			then = disk
			return s.net.To().RoundTrip(req)
		})
		s.stop()
		must(t, os.WriteFile(filepath.Join(after, "log"), then, 0o600))
		r.startedAfter(after)
	})
}
