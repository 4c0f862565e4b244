package routing_test

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/routing"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// firewall forgets connections: the answers to the long polls that are under way then never come.
// New requests pass.
type firewall struct {
	to http.RoundTripper

	mu     sync.Mutex
	forgot map[string]chan struct{} // by a part of the path
	asked  int                      // requests that are no long polls
}

func newFirewall(to http.RoundTripper) *firewall {
	return &firewall{to: to, forgot: map[string]chan struct{}{}}
}

// forget lets the polls under way whose path has one of the parts hang.
func (f *firewall) forget(parts ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, part := range parts {
		if ch := f.forgot[part]; ch != nil {
			close(ch)
		}
		delete(f.forgot, part)
	}
}

func (f *firewall) RoundTrip(r *http.Request) (*http.Response, error) {
	poll := transport.Poll(r)
	var lost []chan struct{}
	f.mu.Lock()
	if poll {
		for _, part := range []string{"/members/", "/acks/", "/assignments/member-000",
			"/assignments/member-001", "/assignments/member-002"} {
			if strings.Contains(r.URL.Path, part) {
				if f.forgot[part] == nil {
					f.forgot[part] = make(chan struct{})
				}
				lost = append(lost, f.forgot[part])
			}
		}
	} else {
		f.asked++
	}
	f.mu.Unlock()
	resp, err := f.to.RoundTrip(r)
	for _, ch := range lost {
		select {
		case <-ch:
			if err == nil {
				resp.Body.Close()
			}
			return transport.Hang(r)
		default:
		}
	}
	return resp, err
}

func (f *firewall) others() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

// behind runs f beside a router that has read everything, behind a firewall, in virtual time.
func behind(t *testing.T, f func(t *testing.T, w *populated, r *routing.Router, wall *firewall)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
		consul := devconsul.New(devconsul.Config{Logger: quiet, NoJitter: true})
		defer consul.Close()
		w := populate(t, consul, 3, 9)
		for i := range 9 {
			w.write(store.Set(w.store.Keys().WorkItem(w.item(i)), nil, 0))
		}
		wall := newFirewall(consul.RoundTripper())
		r, stop := begin(t, wall, quiet)
		defer stop()
		if _, err := r.Locate(t.Context(), w.item(0)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		f(t, w, r, wall)
	})
}

// asks asks for d, every 100 ms, and returns for how long "no owner" was said and whether an owner
// was at last.
func asks(t *testing.T, r *routing.Router, item string, d time.Duration) (nobody time.Duration,
	last routing.Location) {
	t.Helper()
	began := time.Now()
	for time.Since(began) < d {
		loc, err := r.Locate(t.Context(), item)
		if last = loc; errors.Is(err, routing.ErrNoOwner) {
			nobody = time.Since(began)
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nobody, last
}

// A grant raises no ack, so no pulse finds out that a poll has missed it.
func TestNoOwnerIsNotSaidOfAGrantThatADeadPollHasMissed(t *testing.T) {
	behind(t, func(t *testing.T, w *populated, r *routing.Router, wall *firewall) {
		wall.forget("/assignments/member-001")
		keys, item := w.store.Keys(), "a_new_item"
		w.write(store.Set(keys.WorkItem(item), nil, 0))
		if _, err := r.Locate(t.Context(), item); !errors.Is(err, routing.ErrNoOwner) {
			t.Errorf("nobody has it yet: %v", err)
		}
		w.write(store.Create(keys.Assignment(w.member(1), item), w.grant()))
		nobody, last := asks(t, r, item, 5*time.Second)
		if nobody > time.Second {
			t.Errorf("it has had an owner for %v, and the router says that nobody is", nobody)
		}
		if last.Member != w.member(1) {
			t.Errorf("after 5 s it is at %+v", last)
		}
	})
}

// The polls of the vanished member's share and of the one that got its items died with it.
func TestNoOwnerIsNotSaidOfATakeOverThatDeadPollsHaveMissed(t *testing.T) {
	behind(t, func(t *testing.T, w *populated, r *routing.Router, wall *firewall) {
		keys, item := w.store.Keys(), w.item(0)
		wall.forget("/assignments/member-000", "/assignments/member-001")
		w.write(store.Delete(keys.Member(w.member(0))))
		time.Sleep(5 * time.Second)
		if _, err := r.Locate(t.Context(), item); !errors.Is(err, routing.ErrNoOwner) {
			t.Errorf("its member has vanished: %v", err)
		}
		w.write(store.Delete(keys.Assignment(w.member(0), item)),
			store.Create(keys.Assignment(w.member(1), item), w.grant()))
		nobody, last := asks(t, r, item, 5*time.Second)
		if nobody > time.Second {
			t.Errorf("it has had an owner for %v, and the router says that nobody is", nobody)
		}
		if last.Member != w.member(1) {
			t.Errorf("after 5 s it is at %+v", last)
		}
	})
}

// A member that has come, and whose record the dead poll has not brought, may have it.
func TestNoOwnerIsNotSaidWhileAMemberIsNotKnown(t *testing.T) {
	behind(t, func(t *testing.T, w *populated, r *routing.Router, wall *firewall) {
		wall.forget("/members/", "/acks/")
		keys, item, id := w.store.Keys(), "a_new_item", "newcomer"
		w.write(store.Set(keys.WorkItem(item), nil, 0),
			store.Lock(keys.Member(id), protocol.MemberRecord{Status: protocol.StatusAlive,
				Address: "newcomer:9000"}.Encode(), 0, w.session),
			store.Set(keys.AssignmentsOf(id), []byte(w.session), 0), w.ack(id, 1),
			store.Create(keys.Assignment(id, item), w.grant()))
		nobody, last := asks(t, r, item, 10*time.Second)
		if nobody > time.Second {
			t.Errorf("it has had an owner for %v, and the router says that nobody is", nobody)
		}
		if last.Member != id {
			t.Errorf("after 10 s it is at %+v", last)
		}
	})
}

// However many ask, and for however many items: Consul is asked a few times a second.
func TestWhatLooksForOwnersCostsConsulIsBounded(t *testing.T) {
	behind(t, func(t *testing.T, w *populated, r *routing.Router, wall *firewall) {
		keys := w.store.Keys()
		w.write(store.Set(keys.WorkItem("orphan"), nil, 0), store.Delete(keys.Member(w.member(0))))
		time.Sleep(5 * time.Second)
		before := wall.others()
		const seconds = 10
		for range seconds * 20 {
			var all sync.WaitGroup
			for _, item := range []string{"orphan", w.item(0), w.item(3), w.item(6)} {
				for range 10 {
					all.Go(func() {
						if _, err := r.Locate(t.Context(), item); !errors.Is(err,
							routing.ErrNoOwner) {
							t.Errorf("%s: %v", item, err)
						}
					})
				}
			}
			all.Wait()
			time.Sleep(50 * time.Millisecond)
		}
		// The orphan's two reads, the members and the vanished member's share, each second, and now
		// and then once more; and the pulse.
		if n := wall.others() - before; n > 7*(seconds+1) {
			t.Errorf("%d requests in %d s", n, seconds)
		}
	})
}

// A stranger's record may have an id that makes no key with some items' ids. Nobody has those
// there.
func TestAnIDThatMakesNoKeyHidesNoOtherAnswer(t *testing.T) {
	behind(t, func(t *testing.T, w *populated, r *routing.Router, _ *firewall) {
		keys, orphan, owned := w.store.Keys(), "x%41", "y%41"
		w.write(store.Set(keys.WorkItem(orphan), nil, 0), store.Set(keys.WorkItem(owned), nil, 0),
			store.Create(keys.Assignment(w.member(1), owned), w.grant()),
			store.Lock(keys.Member("a b"), protocol.MemberRecord{Status: protocol.StatusAlive,
				Address: "n:9000"}.Encode(), 0, w.session))
		time.Sleep(5 * time.Second)
		for name, find := range map[string]func(string) (routing.Location, error){
			"the router": func(item string) (routing.Location, error) {
				return r.Locate(t.Context(), item)
			},
			"Find": func(item string) (routing.Location, error) {
				return routing.Find(t.Context(),
					routing.Config{Service: "demo", Client: w.client}, item)
			},
		} {
			if _, err := find(orphan); !errors.Is(err, routing.ErrNoOwner) {
				t.Errorf("%s: nobody has it: %v", name, err)
			}
			if loc, err := find(owned); err != nil || loc.Member != w.member(1) {
				t.Errorf("%s: %+v, %v", name, loc, err)
			}
		}
	})
}
