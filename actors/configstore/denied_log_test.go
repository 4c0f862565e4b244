package configstore_test

import (
	"encoding/base64"
	"errors"
	"fmt"
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

// denying is a token that may not write the keys that hold a text. The marker it may write.
func (h *host) denying(text string) (granted *atomic.Bool) {
	granted = &atomic.Bool{}
	consul, aimed := h.net.To(), transport.TxnWith("config_data/"+text)
	h.net.Via(transport.When(consul, func(req *http.Request) bool {
		return !granted.Load() && aimed(req)
	}, denied))
	return granted
}

// logs puts a write into the log and no further: Consul is away.
func (h *host) logs(key, value string) {
	h.rig.t.Helper()
	if _, err := h.Put(h.rig.ctx(100*time.Millisecond), key, []byte(value)); !errors.Is(err,
		configstore.ErrPending) {
		h.rig.t.Fatalf("put %s: %v", key, err)
	}
}

// logsTxn does so with a transaction.
func (h *host) logsTxn(ops ...configstore.Op) {
	h.rig.t.Helper()
	if _, err := h.Txn(h.rig.ctx(100*time.Millisecond), ops...); !errors.Is(err,
		configstore.ErrPending) {
		h.rig.t.Fatal(err)
	}
}

// The bound counts for all of them together, also where others are let through in between.
func TestDeniedWritesInTheLogDelayOthersByAtMostTheLimit(t *testing.T) {
	const pairs = 100
	dir := t.TempDir()
	run(t, func(t *testing.T, r *rig) {
		s := r.start(logged(dir)).ready()
		s.put("before", "1")
		granted := s.denying("forbidden/")
		s.net.Cut(errors.New("cut off"))
		for i := range pairs {
			s.logs(fmt.Sprint("forbidden/", i), fmt.Sprint("secret", i))
			s.logs(fmt.Sprint("good/", i), fmt.Sprint(i))
		}
		s.net.Cut(nil)
		r.await("it is said that the first of them is denied", time.Minute, func() bool {
			return errors.Is(s.Queue().Get().Denied, configstore.ErrDenied)
		})
		began := time.Now()
		r.await("all are applied or refused", configstore.DeniedLimit+30*time.Second, func() bool {
			return s.Queue().Get().Waiting == 0
		})
		if took := time.Since(began); took < configstore.DeniedLimit-10*time.Second {
			t.Errorf("the first was refused after %v", took)
		}
		q := s.Queue().Get()
		r.expect("refused", q.Refused, pairs)
		r.expect("denied, when nothing waits", q.Denied, nil)
		kept, err := os.ReadFile(filepath.Join(dir, "conflicts"))
		must(t, err)
		for i := range pairs {
			r.expect("an allowed one", r.raw(fmt.Sprint("config_data/good/", i)), i)
			if value := base64.StdEncoding.EncodeToString(fmt.Append(nil, "secret", i)); strings.
				Count(string(kept), `"`+value+`"`) != 1 {
				t.Errorf("value %d is not kept", i)
			}
		}
		s.put("later", "1")
		granted.Store(true)
		s.kill()
		r.start(logged(dir)).ready().put("later", "2")
		r.expect("one that was refused", r.times("forbidden/0=secret0"), 0)
	})
}

// Those who wait hear at once that theirs is denied. They are not made to wait behind those who
// have gone, again and again.
func TestWhoWritesWhatIsDeniedAgainAndAgainDelaysOthersOnce(t *testing.T) {
	dir := t.TempDir()
	run(t, func(t *testing.T, r *rig) {
		s := r.start(logged(dir)).ready()
		s.put("before", "1")
		s.denying("forbidden")
		s.net.Cut(errors.New("cut off"))
		s.logs("forbidden", "0")
		s.net.Cut(nil)
		for begin := time.Now(); time.Since(begin) < 5*time.Minute; time.Sleep(2 * time.Second) {
			_, err := s.Put(r.ctx(time.Second), "forbidden", []byte("1"))
			if time.Since(begin) > configstore.DeniedLimit+30*time.Second &&
				!errors.Is(err, configstore.ErrDenied) {
				t.Fatalf("after %v: %v", time.Since(begin), err)
			}
			_, err = s.Put(r.ctx(time.Second), "good", []byte("1"))
			if time.Since(begin) > configstore.DeniedLimit+30*time.Second && err != nil {
				t.Fatalf("another, after %v: %v", time.Since(begin), err)
			}
		}
	})
}

func TestADeniedWriteInTheLogIsAppliedIfItIsGrantedWithinTheLimit(t *testing.T) {
	dir := t.TempDir()
	run(t, func(t *testing.T, r *rig) {
		s := r.start(logged(dir)).ready()
		s.put("before", "1")
		granted := s.denying("k")
		for i := range 2 { // the second begins with a limit of its own
			key := fmt.Sprint("k", i)
			granted.Store(false)
			s.net.Cut(errors.New("cut off"))
			s.logs(key, "1")
			s.net.Cut(nil)
			r.await("it is denied", time.Minute, func() bool {
				return s.Queue().Get().Denied != nil
			})
			time.Sleep(configstore.DeniedLimit - 10*time.Second)
			granted.Store(true)
			r.await("it is applied", 10*time.Second, func() bool {
				return s.Queue().Get().Waiting == 0
			})
			r.expect(key, r.raw("config_data/"+key), "1")
			time.Sleep(2 * configstore.DeniedLimit)
		}
		r.expect("refused", s.Queue().Get().Refused, 0)
	})
}

// Copies of its tries arrive when the token has been granted more.
func TestADeniedWriteThatWasRefusedStaysRefusedWhenACopyOfItArrivesLate(t *testing.T) {
	dir := t.TempDir()
	run(t, func(t *testing.T, r *rig) {
		s := r.start(logged(dir)).ready()
		s.put("before", "1")
		consul := s.net.To()
		var copies []*http.Request
		s.net.Via(transport.When(consul, transport.TxnWith("config_data/forbidden"),
			func(req *http.Request) (*http.Response, error) {
				copies = append(copies, transport.Copy(req))
				return denied(req)
			}))
		s.net.Cut(errors.New("cut off"))
		s.logs("forbidden", "1")
		s.net.Cut(nil)
		r.await("it is refused", 2*configstore.DeniedLimit, func() bool {
			return s.Queue().Get().Refused == 1
		})
		for _, req := range copies {
			transport.Again(consul, req)
		}
		r.expect("tries", len(copies) > 10, true)
		r.expect("what was refused", r.raw("config_data/forbidden"), "-")
	})
}

// A token that may not write the marker may write nothing: whoever takes a token away by mistake
// loses no write.
func TestALoggedWriteOutlastsATokenThatMayWriteNothing(t *testing.T) {
	dir := t.TempDir()
	run(t, func(t *testing.T, r *rig) {
		s := r.start(logged(dir)).ready()
		s.put("before", "1")
		s.net.Cut(errors.New("cut off"))
		s.logs("forbidden/1", "1")
		s.denying("forbidden/")
		s.net.Cut(nil)
		r.await("what the token lacks alone is refused", 2*configstore.DeniedLimit, func() bool {
			return s.Queue().Get().Refused == 1
		})
		var granted atomic.Bool // a moment later, when the limit has been reached
		s.net.Via(transport.When(s.net.To(), func(req *http.Request) bool {
			return !granted.Load() && isTxn(req)
		}, denied))
		s.net.Cut(errors.New("cut off"))
		for i := range 3 {
			s.logs(fmt.Sprint("k", i), "1")
		}
		s.net.Cut(nil)
		time.Sleep(time.Hour)
		q := s.Queue().Get()
		r.expect("waiting and refused", fmt.Sprint(q.Waiting, q.Refused), "3 1")
		r.expect("said", errors.Is(q.Denied, configstore.ErrDenied), true)
		granted.Store(true)
		r.await("all are applied", 10*time.Second, func() bool {
			return s.Queue().Get().Waiting == 0
		})
		r.expect("writes", fmt.Sprint(r.times("k0=1"), r.times("k1=1"), r.times("k2=1")), "1 1 1")
		r.expect("refused", s.Queue().Get().Refused, 1)
	})
}
