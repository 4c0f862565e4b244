package onzk_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// always has every server behind as far as it can be.
type always struct{}

func (always) Uint64() uint64 { return 1<<63 | 1 }

// behind connects to servers that are three seconds behind the others.
func (s *embedded) behind() *onzk.Conn {
	s.t.Helper()
	slow := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{
		Rand: rand.New(always{}), Lag: 3 * time.Second}).Dial})
	time.Sleep(time.Minute)
	return slow
}

// An order over a connection whose server is behind is for the election of now, its leader and its
// candidates. That server has not heard of any of them, or has another one that is being deleted.
func TestAnOrderOverAServerThatIsBehindIsForWhatIsThereNow(t *testing.T) {
	type orders func(context.Context, *election.Election, election.Backend, string) error
	for name, order := range map[string]orders{
		"a hand-over by name": func(ctx context.Context, e *election.Election, _ election.Backend,
			_ string) error {
			return e.HandOver(ctx, "b")
		},
		"a hand-over by id": func(ctx context.Context, _ *election.Election, b election.Backend,
			id string) error {
			return b.HandOver(ctx, id, 0)
		},
		"an end": func(ctx context.Context, e *election.Election, _ election.Backend,
			_ string) error {
			return e.End(ctx)
		},
		"a Delete": func(ctx context.Context, e *election.Election, _ election.Backend,
			_ string) error {
			return e.Delete(ctx)
		},
	} {
		for _, another := range []bool{false, true} {
			if another {
				name += " behind another Delete"
			}
			t.Run(name, func(t *testing.T) {
				bubble(t, func(t *testing.T, s *embedded) {
					quick := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
					defer quick.Close()
					slow := s.behind()
					defer slow.Close()
					given := func(give func() error) <-chan error {
						done := make(chan error, 1)
						go func() { done <- give() }()
						return done
					}
					if another {
						old := s.nominate(quick, "old")
						becomes(t, old, election.Leading)
						deleted := given(func() error {
							return s.operator(quick).Delete(t.Context())
						})
						becomes(t, old, election.Draining)
						time.Sleep(10 * time.Second)
						old.Drained()
						must(t, <-deleted)
						time.Sleep(time.Second) // until quick has heard of it, too
					}
					a := s.nominate(quick, "a")
					becomes(t, a, election.Leading)
					b := s.nominate(quick, "b")
					becomes(t, b, election.Following)
					backend, err := slow.Open("demo")
					must(t, err)
					done := given(func() error {
						return order(t.Context(), s.operator(slow), backend,
							b.State().Get().Self.ID)
					})
					time.Sleep(time.Second)
					if now := a.State().Get(); now.Role != election.Draining {
						t.Errorf("the leader is %v", now)
					}
					a.Resign()
					a.Drained()
					if err := <-done; err != nil {
						t.Error(err)
					}
					electiontest.Resign(a, b)
				})
			})
		}
	}
}
