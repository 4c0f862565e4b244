package configstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/configstore"
)

// waits has a write in the log that Consul does not answer, and whose caller waits for that. What
// the caller hears comes out of the channel.
func (h *host) waits(key, value string) <-chan error {
	h.rig.t.Helper()
	h.net.Cut(errors.New("cut off"))
	ctx, told := h.rig.ctx(time.Hour), make(chan error, 1)
	go func() {
		_, err := h.Put(ctx, key, []byte(value))
		told <- err
	}()
	synctest.Wait()
	h.rig.expect("writes in the log", h.Queue().Get().Logged, 1)
	return told
}

// What a store cannot write any more, as it stops or as another one has its marker, is in the log
// afterwards, or nobody is told that it is.
func TestWhatIsLeftInALogThatIsGoneIsLoggedAnew(t *testing.T) {
	type story struct {
		ends func(r *rig, s *host) // from now on the store writes nothing
		is   error                 // what the caller hears that the store has come to
	}
	stops := story{func(_ *rig, s *host) { s.stop() }, configstore.ErrStopped}
	taken := story{func(r *rig, s *host) {
		r.stranger("config_log/"+r.markers(), `{"n":1,"claim":99999,"by":{"instance":"another"}}`)
		s.net.Cut(nil)
	}, configstore.ErrTaken}
	for what, c := range map[string]story{"it stops": stops, "another has the marker": taken} {
		for _, blocked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, blocked=%v", what, blocked), func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "log")
				run(t, func(t *testing.T, r *rig) {
					s := r.start(logged(dir)).ready()
					s.put("other", "1")
					told := s.waits("k", "1")
					must(t, os.RemoveAll(dir))
					if blocked { // there is no place for a directory
						must(t, os.WriteFile(dir, nil, 0o600))
					}
					c.ends(r, s)
					err := <-told
					if !errors.Is(err, c.is) || errors.Is(err, configstore.ErrPending) == blocked ||
						errors.Is(err, configstore.ErrLog) != blocked {
						t.Errorf("the caller hears %v", err)
					}
					if !blocked {
						s.kill()
						next := r.start(logged(dir)).ready()
						next.settled()
						r.expect("writes", r.times("k=1"), 1)
					}
				})
			})
		}
	}
}

// Those were told when the log was there.
func TestAStopLeavesTheLogWithWhatOthersCountOn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	run(t, func(t *testing.T, r *rig) {
		s := r.start(logged(dir)).ready()
		s.put("other", "1")
		s.net.Cut(errors.New("cut off"))
		s.logs("k", "1")
		must(t, os.RemoveAll(dir))
		s.stop()
		r.start(logged(dir)).ready().settled()
		r.expect("writes", r.times("k=1"), 1)
	})
}

// The write queue has failed just then, and answers nobody any more.
func TestAStopThatAnswersNobodySaysOfNoLogThatIsGoneThatAWriteIsInIt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	run(t, func(t *testing.T, r *rig) {
		var broken atomic.Bool
		s := r.start(logged(dir), configstore.WithFault(func(context.Context) error {
			if broken.Load() {
				return errors.New("broken")
			}
			return nil
		})).ready()
		s.put("other", "1")
		told := s.waits("k", "1")
		must(t, os.RemoveAll(dir))
		broken.Store(true)
		if _, err := s.Put(r.ctx(time.Minute), "k", []byte("2")); err == nil {
			t.Error("its queue has not failed")
		}
		s.stop()
		if err := <-told; !errors.Is(err, configstore.ErrLog) || errors.Is(err,
			configstore.ErrPending) || !errors.Is(err, configstore.ErrStopped) {
			t.Errorf("the caller hears %v", err)
		}
	})
}
