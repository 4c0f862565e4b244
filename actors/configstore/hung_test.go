package configstore_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// hung is a disk on which an fsync does not come back while it is told so.
type hung struct {
	hangs atomic.Bool
	free  chan struct{}
}

func (d *hung) sync(f *os.File) error {
	if d.hangs.Load() {
		<-d.free
	}
	return f.Sync()
}

func TestADiskThatHangsKeepsNobodyBeyondHisContextNorBeyondTheStore(t *testing.T) {
	dir := t.TempDir()
	run(t, func(t *testing.T, r *rig) {
		d := hung{free: make(chan struct{})}
		s := r.start(logged(dir), configstore.WithSync(d.sync)).ready()
		s.put("k", "0")
		s.net.Cut(errors.New("cut off"))
		begin := time.Now()
		type answer struct {
			err  error
			took time.Duration
		}
		put := func(ctx context.Context, key string) chan answer {
			told := make(chan answer, 1)
			go func() {
				_, err := s.Put(ctx, key, []byte("1"))
				told <- answer{err, time.Since(begin)}
			}()
			time.Sleep(time.Second)
			return told
		}
		logged := put(r.ctx(10*time.Second), "k1")
		d.hangs.Store(true)
		patient, waiting := put(context.Background(), "k2"), put(context.Background(), "k3")
		time.Sleep(20 * time.Second)
		if a := <-logged; !errors.Is(a.err, configstore.ErrPending) || a.took > 11*time.Second {
			t.Errorf("it is in the log, its context ended after 10 s, and it is told after %v: %v",
				a.took, a.err)
		}
		stopped := time.Now()
		s.cancel()
		for name, c := range map[string]chan answer{"the one that is being logged": patient,
			"the next": waiting} {
			select {
			case a := <-c:
				if !errors.Is(a.err, configstore.ErrStopped) {
					t.Errorf("%s: %v", name, a.err)
				}
			case <-time.After(5 * time.Minute):
				t.Errorf("%s: told nothing within %v of the stop", name, time.Since(stopped))
			}
		}
		close(d.free)
		<-s.done
		time.Sleep(time.Minute)
	})
}

// What is noted of a write once it was applied is for the next start. Nobody waits for it.
func TestADiskThatHangsWhenAWriteWasAppliedKeepsNobodyWaiting(t *testing.T) {
	dir := t.TempDir()
	run(t, func(t *testing.T, r *rig) {
		d := hung{free: make(chan struct{})}
		s := r.start(logged(dir), configstore.WithSync(func(f *os.File) error {
			if _, err := os.Lstat(f.Name()); err != nil || filepath.Base(f.Name()) != "log.new" {
				return f.Sync() // it is no log that is just being made anew
			}
			return d.sync(f)
		})).ready()
		value := strings.Repeat("v", 250<<10)
		for range 3 {
			s.put("k", value)
		}
		d.hangs.Store(true) // the next write fills the log so far that it is made anew
		begin, told := time.Now(), make(chan error, 1)
		go func() {
			_, err := s.Put(r.ctx(10*time.Second), "last", []byte(value))
			told <- err
		}()
		select {
		case err := <-told:
			if took := time.Since(begin); err != nil || took > 11*time.Second {
				t.Errorf("it is told after %v: %v", took, err)
			}
		case <-time.After(time.Minute):
			t.Errorf("its context ended after 10 s, and it is told nothing within %v",
				time.Since(begin))
		}
		if got := r.raw("config_data/last"); got != value {
			t.Errorf("Consul has %.3s…, and %d bytes", got, len(got))
		}
		close(d.free)
	})
}

// A proxy that calls a request bad may have let a copy of it through.
func TestAWriteThatWasCalledBadStaysUnwrittenWhenACopyOfItArrivesLate(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge,
		http.StatusNotFound, http.StatusMethodNotAllowed} {
		run(t, func(t *testing.T, r *rig) {
			s := r.start().ready()
			s.net.Next(1, func(req *http.Request) (*http.Response, error) {
				_, _ = s.net.Late(8 * time.Second)(req)
				return transport.Answer(req, status, ""), nil
			})
			_, err := s.Put(r.ctx(time.Minute), "k", []byte("late"))
			time.Sleep(time.Minute)
			if got := r.raw("config_data/k"); err != nil && got != "-" {
				t.Errorf("after a %d: the caller heard %v, and k is %s", status, err, got)
			}
		})
	}
}
