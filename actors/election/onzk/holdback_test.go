package onzk_test

import (
	"errors"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// The others wait for the candidate of a hand-over for as long as the connection says that gave the
// order, as on Consul: coordd elect --hand-over has the --hold-back.
func TestAHandOverHoldsTheOthersBackForAsLongAsTheOrderSays(t *testing.T) {
	for _, holdBack := range []time.Duration{time.Second, 25 * time.Second} {
		t.Run(holdBack.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				connect := func(holdBack time.Duration) (*onzk.Conn, *devzookeeper.Way) {
					way := s.zoo.Way(devzookeeper.Weather{})
					return s.connect(onzk.Config{Dial: way.Dial, HoldBack: holdBack,
						SessionTimeout: 40 * time.Second}), way
				}
				conn, _ := connect(0)
				defer conn.Close()
				a := s.nominate(conn, "a")
				becomes(t, a, election.Leading)
				chosen, way := connect(0)
				defer chosen.Close()
				c := s.nominate(chosen, "c")
				becomes(t, c, election.Following)
				orders, _ := connect(holdBack)
				defer orders.Close()
				operator, err := election.New(orders, election.Config{Election: "demo",
					Logger: s.log})
				must(t, err)
				way.Sever()
				must(t, operator.HandOver(t.Context(), "c"))
				becomes(t, a, election.Draining)
				a.Drained()
				begin := time.Now()
				becomes(t, a, election.Following)
				becomes(t, a, election.Leading)
				if held := time.Since(begin); held < holdBack || held > holdBack+2*time.Second {
					t.Errorf("the first one waited for %v, and the order says %v", held, holdBack)
				}
				way.Mend(true)
				for _, e := range []*election.Election{a, c} {
					e.Resign()
					e.Drained()
					<-e.Done()
				}
			})
		})
	}
}

// A leader that was asked to make way is lost before its duty has ended. Its lock-delay is waited
// for, and nobody could lead before: the hold-back begins behind it.
func TestAHandOverHoldsTheOthersBackBehindALockDelay(t *testing.T) {
	for _, delay := range []time.Duration{3 * time.Second, 20 * time.Second} {
		t.Run(delay.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				connect := func() (*onzk.Conn, *devzookeeper.Way) {
					way := s.zoo.Way(devzookeeper.Weather{})
					return s.connect(onzk.Config{Dial: way.Dial, LockDelay: delay,
						SessionTimeout: 40 * time.Second}), way
				}
				first, _ := connect()
				defer first.Close()
				second, _ := connect()
				defer second.Close()
				chosen, way := connect()
				defer chosen.Close()
				a := s.nominate(first, "a")
				becomes(t, a, election.Leading)
				b := s.nominate(second, "b")
				becomes(t, b, election.Following)
				c := s.nominate(chosen, "c")
				becomes(t, c, election.Following)
				must(t, b.HandOver(t.Context(), "c"))
				becomes(t, a, election.Draining)
				session, _ := first.Credentials()
				s.zoo.End(session)
				<-a.Done()
				time.Sleep(delay - 100*time.Millisecond)
				way.Sever()
				time.Sleep(onzk.DefaultHoldBack / 2)
				if now := b.State().Get(); now.Role != election.Following {
					t.Errorf("the one that is not to lead is %v", now)
				}
				way.Mend(true)
				becomes(t, c, election.Leading)
				electiontest.Resign(b, c)
			})
		})
	}
}

func TestAHoldBackAboveTheBoundIsRefused(t *testing.T) {
	_, err := onzk.Connect(onzk.Config{Servers: addresses, HoldBack: election.MaxHoldBack + 1})
	if !errors.Is(err, election.ErrInvalid) {
		t.Errorf("it is %v", err)
	}
}

// The client counts a session's timeout in milliseconds, in 31 bits: beyond 24.8 days no session
// ever began, and nobody said why.
func TestASessionTimeoutAboveTheBoundIsRefused(t *testing.T) {
	for timeout, fits := range map[time.Duration]bool{
		onzk.MaxSessionTimeout: true, onzk.MaxSessionTimeout + 1: false, 600 * time.Hour: false,
	} {
		err := onzk.Config{Servers: addresses, SessionTimeout: timeout}.Validate()
		if (err == nil) != fits || err != nil && !errors.Is(err, election.ErrInvalid) {
			t.Errorf("with %v it is %v", timeout, err)
		}
	}
}

// Whoever preempts means a leader of lower priority, and not the one after it.
func TestAHandOverThatIsForAnEarlierLeaderIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		conn := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
		defer conn.Close()
		a := s.nominate(conn, "a")
		first := becomes(t, a, election.Leading).Token
		b := s.nominate(conn, "b")
		becomes(t, b, election.Following)
		c := s.nominate(conn, "c")
		id := becomes(t, c, election.Following).Self.ID
		a.Resign()
		second := becomes(t, b, election.Leading).Token
		backend, err := conn.Open("demo")
		must(t, err)
		if err := backend.HandOver(t.Context(), id, first); !errors.Is(err, election.ErrNoLeader) {
			t.Errorf("an order for the leader before is answered with %v", err)
		}
		time.Sleep(time.Minute)
		if s := b.State().Get(); s.Role != election.Leading {
			t.Errorf("the leader is told %v", s)
		}
		must(t, backend.HandOver(t.Context(), id, second))
		becomes(t, b, election.Draining)
		electiontest.Resign(b, c)
		<-a.Done()
	})
}
