package onconsul_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// withheld keeps the first release of the leadership, and nobody hears of it.
type withheld struct {
	to http.RoundTripper

	mu   sync.Mutex
	on   atomic.Bool
	kept *http.Request
}

func (w *withheld) carry(r *http.Request) (*http.Response, error) {
	text := transport.Txn(r)
	w.mu.Lock()
	keep := w.on.Load() && w.kept == nil && strings.Contains(text, `"delete"`)
	if keep {
		w.kept = transport.Copy(r)
	}
	w.mu.Unlock()
	if keep {
		return transport.Hang(r)
	}
	return w.to.RoundTrip(r)
}

// A leader was to make way, and its release is late. It is cut off, its lease ends, the order
// becomes one for somebody who dies, and it is back. If it led again with its token now, and its
// duty began, the release would take the leadership away when it arrives.
func TestAReleaseThatArrivesLateTakesTheLeadershipFromNobody(t *testing.T) {
	judge := electiontest.NewJudge()
	bubble(t, func(t *testing.T, s *embedded) {
		stand := func(name string) (*election.Election, *onconsul.Conn, *withheld, *wire) {
			way := &withheld{to: s.consul.RoundTripper()}
			w := &wire{next: transport.Func(way.carry), server: s}
			conn := s.over(w)
			e, err := election.New(judge.Record(conn), election.Config{
				// b is next
				Election: contested, Name: name, Logger: s.log,
				Priority: map[string]int{"b": 5}[name],
				Lead: func(ctx context.Context, s election.Status) error {
					work := func() { judge.Work(contested, s.Self.ID, s.Token) }
					for work(); store.Pause(ctx, 100*time.Millisecond); work() {
					}
					time.Sleep(100 * time.Millisecond)
					work()
					return nil
				},
			})
			must(t, err)
			if _, err := e.Nominate(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			return e, conn, way, w
		}
		a, one, release, cut := stand("a")
		b, two, _, _ := stand("b")
		c, three, _, _ := stand("c")
		release.on.Store(true)
		must(t, b.HandOver(t.Context(), "c"))
		time.Sleep(500 * time.Millisecond) // it is under way
		cut.sever()
		d, four, _, _ := stand("d")
		must(t, b.HandOver(t.Context(), "d"))
		d.Resign()
		<-d.Done()
		defer four.Close()
		c.Resign()
		<-c.Done()
		time.Sleep(12 * time.Second) // the lease of a is over, and its session is not
		cut.mend()
		time.Sleep(5 * time.Second)
		t.Logf("a: %v, b: %v", a.State().Get(), b.State().Get())
		if release.kept == nil {
			t.Fatal("nothing was kept")
		}
		leads := a
		// it has made way, as it was told before it was cut off
		if a.State().Get().Role != election.Leading {
			leads = b
		}
		before := leads.State().Get()
		if before.Role != election.Leading {
			t.Fatalf("a is back, and was told %v; b was told %v", a.State().Get(), before)
		}
		code := transport.Again(s.consul.RoundTripper(), release.kept)
		if code == 0 {
			t.Fatal("the late release has not arrived")
		}
		t.Logf("late: %v", code)
		time.Sleep(time.Second)
		if s := leads.State().Get(); s.Role != election.Leading || s.Token != before.Token {
			t.Errorf("the late release made %v of %v", s, before)
		}
		electiontest.Resign(a, b)
		for _, conn := range []*onconsul.Conn{one, two, three} {
			conn.Close()
		}
	})
	if err := judge.Verdict(time.Minute); err != nil {
		t.Error(err)
	}
}
