package configstore_test

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/configstore"
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
