package configstore_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/configstore"
)

// disk fails each fsync as long as it is told to.
type disk struct {
	fails   atomic.Bool
	mu      sync.Mutex
	log     string      // the log's file
	there   os.FileInfo // which that was
	machine []byte      // what it held at the last fsync that failed
	kept    []byte      // and at the last one that did not: that outlives the machine
}

func (d *disk) sync(f *os.File) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := filepath.Join(filepath.Dir(f.Name()), "log")
	own, err := f.Stat()
	if err == nil && own.IsDir() {
		name = filepath.Join(f.Name(), "log")
	}
	there, _ := os.Stat(name)
	// Of a directory it is the names: another file may be the log from now on.
	about := err == nil && (os.SameFile(own, there) || own.IsDir() && !os.SameFile(there, d.there))
	var held []byte
	if about {
		d.log, d.there = name, there
		held, _ = os.ReadFile(name)
	}
	if d.fails.Load() {
		if about {
			d.machine = held
		}
		return errors.New("input/output error")
	}
	if about {
		d.kept = held
	}
	return f.Sync()
}

// dies ends a process together with its machine: its log holds no more than was fsynced.
func (h *host) dies(d *disk) {
	h.rig.t.Helper()
	h.net.Cut(errors.New("the machine is dead"))
	d.mu.Lock()
	kept := d.kept
	d.mu.Unlock()
	h.stop()
	must(h.rig.t, os.WriteFile(d.log, kept, 0o600))
}

func TestAWriteThatWasNotTakenInIsNotAppliedAfterTheCrash(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	run(t, func(t *testing.T, r *rig) {
		var d disk
		s := r.start(logged(dir), configstore.WithSync(d.sync)).ready()
		s.put("other", "1")
		s.net.Cut(errors.New("cut off"))
		d.fails.Store(true)
		_, err := s.Put(r.ctx(time.Minute), "k", []byte("first"))
		if !errors.Is(err, configstore.ErrLog) || errors.Is(err, configstore.ErrPending) ||
			!errors.Is(err, configstore.ErrUncertain) {
			t.Errorf("the disk may hold it, and the caller hears %v", err)
		}
		_, err = s.Put(r.ctx(time.Minute), "k", []byte("second"))
		if !errors.Is(err, configstore.ErrLog) || errors.Is(err, configstore.ErrUncertain) {
			t.Errorf("the disk cannot hold it, and the caller hears %v", err)
		}
		s.kill()
		died := r.consul.Snapshot()
		next := r.start(logged(dir)).ready()
		next.put("other", "2")
		r.expect("k after the process died", r.raw("config_data/k"), "-")
		next.stop()

		// It was the machine that died, and the disk did hold it.
		must(t, r.consul.Restore(died))
		d.mu.Lock()
		defer d.mu.Unlock()
		must(t, os.WriteFile(filepath.Join(other, "log"), d.machine, 0o600))
		after := r.start(logged(other)).ready()
		r.await("it is sent", time.Minute, func() bool {
			q := after.Queue().Get()
			return q.Ready && q.Waiting == 0
		})
		if r.times("k=first") != 1 {
			t.Error("what the disk held was not applied")
		}
		if r.times("k=second") != 0 {
			t.Error("what the disk could not hold was applied")
		}
	})
}

func TestADiskThatIsWellAgainTakesWritesAgain(t *testing.T) {
	dir := t.TempDir()
	run(t, func(t *testing.T, r *rig) {
		var d disk
		s := r.start(logged(dir), configstore.WithSync(d.sync)).ready()
		d.fails.Store(true)
		if _, err := s.Put(r.ctx(time.Minute), "k", []byte("1")); !errors.Is(err,
			configstore.ErrLog) {
			t.Error(err)
		}
		d.fails.Store(false)
		s.put("k", "2")
		s.net.Cut(errors.New("cut off"))
		if _, err := s.Put(r.ctx(time.Second), "k", []byte("3")); !errors.Is(err,
			configstore.ErrPending) {
			t.Error(err)
		}
		s.kill()
		next := r.start(logged(dir)).ready()
		r.await("it is through", time.Minute, func() bool {
			q := next.Queue().Get()
			return q.Ready && q.Waiting == 0
		})
		r.expect("k", r.raw("config_data/k"), "3")
		r.expect("writes of what was refused", r.times("k=1"), 0)
	})
}

// Of two writes in a log whose ends the disk has not taken, the second would be sent anew.
func TestNoWriteIsSentBeforeTheDiskHasTheEndOfTheOneBefore(t *testing.T) {
	dir := t.TempDir()
	run(t, func(t *testing.T, r *rig) {
		var d disk
		s := r.start(logged(dir), configstore.WithSync(d.sync)).ready()
		other := r.start().ready()
		s.put("warm", "1")
		s.net.Cut(errors.New("cut off"))
		for _, k := range []string{"a", "b"} {
			if _, err := s.Put(r.ctx(time.Second), k, []byte("1")); !errors.Is(err,
				configstore.ErrPending) {
				t.Fatal(k, err)
			}
		}
		d.fails.Store(true)
		s.net.Cut(nil)
		time.Sleep(time.Minute)
		r.expect("a", r.raw("config_data/a"), "1")
		r.expect("writes of b beside a disk that fails", r.times("b=1"), 0)
		s.kill()
		d.fails.Store(false)
		s = r.start(logged(dir)).ready()
		r.await("b is through", time.Minute, func() bool { return s.Queue().Get().Waiting == 0 })
		must(t, other.Delete(r.ctx(time.Minute), "b"))
		s.stop()
		s = r.start(logged(dir)).ready()
		time.Sleep(time.Minute)
		r.expect("b, deleted by another", r.raw("config_data/b"), "-")
		r.expect("writes of a", r.times("a=1"), 1)
		r.expect("writes of b", r.times("b=1"), 1)
	})
}

// A refused write waits in the log, and those behind it wait with it, until the disk takes it.
func TestARefusedWriteIsKeptInTheLogUntilItIsInTheFile(t *testing.T) {
	dir := t.TempDir()
	conflicts := filepath.Join(dir, "conflicts")
	run(t, func(t *testing.T, r *rig) {
		must(t, os.Mkdir(conflicts, 0o700)) // as good as a full disk
		s := r.start(logged(dir)).ready()
		s.put("k", "0")
		s.net.Cut(errors.New("cut off"))
		if _, err := s.Put(r.ctx(time.Second), "k", []byte("1")); !errors.Is(err,
			configstore.ErrPending) {
			t.Fatal(err)
		}
		r.stranger("config_data/k", "theirs")
		s.net.Cut(nil)
		time.Sleep(time.Minute)
		r.expect("waiting", s.Queue().Get().Waiting, 1)
		s.kill()
		s = r.start(logged(dir))
		<-s.done
		if !errors.Is(s.err, configstore.ErrLog) {
			t.Errorf("the next process: %v", s.err)
		}
		must(t, os.Remove(conflicts))
		// by a machine that died
		must(t, os.WriteFile(conflicts, []byte(`{"torn":`), 0o600))
		for range 2 {
			s = r.start(logged(dir)).ready()
			s.put("other", "1")
			s.kill()
			kept, err := os.ReadFile(conflicts)
			must(t, err)
			lines := strings.Split(strings.TrimSpace(string(kept)), "\n")
			if len(lines) != 2 || !json.Valid([]byte(lines[1])) || !strings.Contains(lines[1],
				base64.StdEncoding.EncodeToString([]byte("1"))) {
				t.Errorf("the file has %s", kept)
			}
		}
		r.expect("writes of what was refused", r.times("k=1"), 0)
	})
}

func TestARefusalIsOnTheDiskBeforeItIsTold(t *testing.T) {
	dir := t.TempDir()
	run(t, func(t *testing.T, r *rig) {
		var d disk
		s := r.start(logged(dir), configstore.WithSync(d.sync)).ready()
		r.stranger("config_data/k", "theirs")
		s.net.Next(1, func(req *http.Request) (*http.Response, error) {
			d.fails.Store(true)
			return s.net.To().RoundTrip(req)
		})
		if _, err := s.CompareAndSet(r.ctx(time.Minute), "k", []byte("ours"), 0); !errors.Is(err,
			configstore.ErrPending) {
			t.Errorf(
				"the disk does not have it that the write was refused, and the caller hears %v",
				err)
		}
		d.fails.Store(false)
		r.await("it is reported", time.Minute, func() bool { return s.Queue().Get().Refused == 1 })
		s.put("other", "1")
		s.kill()
		r.strangerDeletes("config_data/k")
		s = r.start(logged(dir)).ready()
		s.put("other", "2")
		r.expect("k", r.raw("config_data/k"), "-")
	})
}
