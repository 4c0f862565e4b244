package configstore_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
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

func TestALogIsTheSameWhenItsProcessHasChangedToAnotherDirectory(t *testing.T) {
	began, later := t.TempDir(), t.TempDir()
	t.Chdir(began)
	run(t, func(t *testing.T, r *rig) {
		s := r.start(logged("log.d")).ready()
		s.put("k", "1")
		must(t, os.Chdir(later))
		s.net.Cut(errors.New("cut off"))
		if _, err := s.Put(r.ctx(time.Second), "k", []byte("2")); !errors.Is(err,
			configstore.ErrPending) {
			t.Error(err)
		}
		s.kill()
		r.stranger("config_data/k", "theirs")
		next := r.start(logged(filepath.Join(began, "log.d"))).ready()
		r.await("it is through", time.Minute, func() bool {
			q := next.Queue().Get()
			return q.Ready && q.Waiting == 0 && q.Refused == 1
		})
		if made, err := os.ReadDir(later); err != nil || len(made) > 0 {
			t.Errorf("in the other directory there is %v: %v", made, err)
		}
	})
}

func TestALoggedWriteSurvivesTheRemovalOfTheLogsDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	run(t, func(t *testing.T, r *rig) {
		s := r.start(logged(dir)).ready()
		s.put("k1", "0")
		s.net.Cut(errors.New("cut off"))
		if _, err := s.Put(r.ctx(time.Second), "k1", []byte("1")); !errors.Is(err,
			configstore.ErrPending) {
			t.Fatal(err)
		}
		must(t, os.RemoveAll(dir))
		if _, err := s.Put(r.ctx(time.Second), "k2", []byte("2")); !errors.Is(err,
			configstore.ErrPending) {
			t.Fatal(err)
		}
		s.kill()
		next := r.start(logged(dir)).ready()
		r.await("it is through", time.Minute, func() bool {
			q := next.Queue().Get()
			return q.Ready && q.Waiting == 0
		})
		r.expect("k1 and k2", r.raw("config_data/k1")+r.raw("config_data/k2"), "12")
	})
}

func TestAWriteIsNotSaidToBeLoggedWhenItsLogIsGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	run(t, func(t *testing.T, r *rig) {
		s := r.start(logged(dir)).ready()
		s.net.Cut(errors.New("cut off"))
		ctx := r.ctx(10 * time.Second)
		done := make(chan error, 1)
		go func() {
			_, err := s.Put(ctx, "k", []byte("1"))
			done <- err
		}()
		time.Sleep(time.Second)
		must(t, os.RemoveAll(dir))
		// Where the log was, there is something that is not a directory: nothing can be logged
		// there.
		must(t, os.WriteFile(dir, nil, 0o600))
		if err := <-done; errors.Is(err, configstore.ErrPending) ||
			!errors.Is(err, configstore.ErrLog) {
			t.Errorf("it was logged before the log was removed, and the caller hears %v", err)
		}
		if _, err := s.Put(r.ctx(time.Second), "k", []byte("2")); errors.Is(err,
			configstore.ErrPending) || !errors.Is(err, configstore.ErrLog) {
			t.Errorf("it cannot be logged, and the caller hears %v", err)
		}
	})
}

// conflicted has a write that is in the log refused when nobody waits for it any more.
func (r *rig) conflicted(s *host, value string) {
	r.t.Helper()
	s.net.Cut(errors.New("cut off"))
	if _, err := s.Put(r.ctx(time.Second), "k", []byte(value)); !errors.Is(err,
		configstore.ErrPending) {
		r.t.Fatal(err)
	}
	r.stranger("config_data/k", "theirs instead of "+value)
	s.net.Cut(nil)
	r.await("it is refused", time.Minute, func() bool {
		q := s.Queue().Get()
		return q.Ready && q.Waiting == 0
	})
}

// unkept is how many refused writes are said not to be in the file, and why if there are any.
func (h *host) unkept() int {
	h.rig.t.Helper()
	q := h.Queue().Get()
	h.rig.expect(fmt.Sprintf("of %d there is a reason", q.Unkept), q.UnkeptErr != nil, q.Unkept > 0)
	return q.Unkept
}

func TestARefusedWriteIsKeptInTheLogUntilItIsInTheFile(t *testing.T) {
	dir := t.TempDir()
	conflicts := filepath.Join(dir, "conflicts")
	kept := func() string {
		b, err := os.ReadFile(conflicts)
		if err != nil {
			return err.Error()
		}
		return string(b)
	}
	run(t, func(t *testing.T, r *rig) {
		if err := os.Mkdir(conflicts, 0o700); err != nil { // as good as a full disk
			t.Fatal(err)
		}
		s := r.start(logged(dir)).ready()
		s.put("k", "0")
		r.conflicted(s, "1")
		r.expect("refused", s.Queue().Get().Refused, 1)
		r.expect("not in the file", s.unkept(), 1)
		s.put("other", "1") // the marker is past it
		s.kill()

		s = r.start(logged(dir)).ready()
		s.put("other", "2")
		r.conflicted(s, "2")
		r.expect("not in the file, of both processes", s.unkept(), 2)
		must(t, os.Remove(conflicts))
		// by a machine that died
		must(t, os.WriteFile(conflicts, []byte(`{"torn":`), 0o600))
		time.Sleep(time.Minute)
		r.expect("not in the file that can be written to", s.unkept(), 0)
		for _, value := range []string{"1", "2"} {
			if n := strings.Count(kept(),
				base64.StdEncoding.EncodeToString([]byte(value))); n != 1 {
				t.Errorf("value %s is kept %d times: %s", value, n, kept())
			}
			r.expect("writes of what was refused", r.times("k="+value), 0)
		}
		for i, line := range strings.Split(strings.TrimSpace(kept()), "\n") {
			if i > 0 && !json.Valid([]byte(line)) {
				t.Errorf("line %d does not parse: %s", i+1, line)
			}
		}
		s.kill()
		was := kept()
		s = r.start(logged(dir)).ready()
		s.put("k", "3")
		time.Sleep(time.Minute)
		r.expect("the file, when all is kept", kept(), was)
	})
}

// A file that was fsynced is lost with its name, if the machine dies. So is one that is begun anew,
// because somebody has moved it away.
func TestTheNameOfTheFileOfRefusedWritesIsOnTheDiskAsWell(t *testing.T) {
	dir := t.TempDir()
	run(t, func(t *testing.T, r *rig) {
		var synced []string
		s := r.start(logged(dir), configstore.WithSync(func(f *os.File) error {
			synced = append(synced, f.Name())
			return f.Sync()
		})).ready()
		s.put("k", "0")
		for range 2 {
			synced = nil
			r.conflicted(s, "1")
			conflicts := filepath.Join(dir, "conflicts")
			at := slices.Index(synced, conflicts)
			if at < 0 || !slices.Contains(synced[at:], dir) {
				t.Errorf("the directory is not synced after the file: %v", synced)
			}
			s.put("k", "2")
			must(t, os.Rename(conflicts, filepath.Join(t.TempDir(), "conflicts")))
		}
	})
}

// What is in a file that was moved away, or that others may replace, counts as lost.
func TestARefusedWriteIsKeptInTheFileThatItsPathLeadsTo(t *testing.T) {
	dir, away := t.TempDir(), t.TempDir()
	conflicts := filepath.Join(dir, "conflicts")
	run(t, func(t *testing.T, r *rig) {
		var moved atomic.Bool
		s := r.start(logged(dir), configstore.WithSync(func(f *os.File) error {
			err := f.Sync()
			if f.Name() == conflicts && moved.CompareAndSwap(false, true) {
				err = errors.Join(err, os.Rename(conflicts, filepath.Join(away, "conflicts")))
			}
			return err
		})).ready()
		s.put("k", "0")
		r.conflicted(s, "1")
		r.expect("it was moved away", moved.Load(), true)
		kept := func() string {
			b, _ := os.ReadFile(conflicts)
			return string(b)
		}
		time.Sleep(time.Minute)
		value := func(v string) string { return base64.StdEncoding.EncodeToString([]byte(v)) }
		if !strings.Contains(kept(), value("1")) {
			t.Errorf("the file has %q", kept())
		}
		must(t, os.Remove(conflicts))
		must(t, os.Chmod(dir, 0o777))
		r.conflicted(s, "2")
		time.Sleep(time.Minute)
		r.expect("in a directory that others may write to", kept(), "")
		must(t, os.Chmod(dir, 0o700))
		time.Sleep(time.Minute)
		if !strings.Contains(kept(), value("2")) {
			t.Errorf("the file has %q", kept())
		}
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
