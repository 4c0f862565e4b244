package protocol_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// member registers m with two items, as the leader if it is to lead, beside a neighbour whose id
// begins alike.
func member(t *testing.T, s *protocol.Store, leads bool) protocol.Leaving {
	t.Helper()
	k, id := s.Keys(), session(t, s)
	ops := []store.Op{store.Lock(k.Member("m1"), []byte("alive"), 0, id), store.Create(k.Ack("m1"),
		[]byte("1"))}
	for _, m := range []string{"m1", "m10"} {
		ops = append(ops, store.Create(k.AssignmentsOf(m), nil),
			store.Create(k.Assignment(m, m+"-a"), nil), store.Create(k.Assignment(m, m+"-b"), nil))
	}
	if leads {
		ops = append(ops, store.Lock(k.Leader(), []byte("m1"), 0, id))
	}
	txn(t, s, ops...)
	return protocol.Leaving{Member: "m1", Session: id, Clear: true}
}

// wantKeys checks what is left below the service's root.
func wantKeys(t *testing.T, s *protocol.Store, want ...string) {
	t.Helper()
	entries, _, err := s.List(t.Context(), s.Keys().Root(), store.Consistent)
	must(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Key[len(s.Keys().Root()):])
	}
	if len(got) != len(want) {
		t.Fatalf("left are %q, want %q", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("left are %q, want %q", got, want)
		}
	}
}

var (
	neighbour = []string{"assignments/m10/", "assignments/m10/m10-a", "assignments/m10/m10-b"}
	inherited = []string{"acks/m1", "assignments/m1/", "assignments/m1/m1-a", "assignments/m1/m1-b"}
)

func TestADepartedLeaderLeavesNothingAndNoLockDelay(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, s *protocol.Store) {
		l := member(t, s, true)
		accepted, err := s.Depart(t.Context(), l)
		if err != nil || !accepted {
			t.Errorf("accepted %v, %v", accepted, err)
		}
		wantKeys(t, s, neighbour...)
		if _, exists, err := s.SessionInfo(t.Context(), l.Session); err != nil || exists {
			t.Errorf("its session exists: %v, %v", exists, err)
		}
		// A successor of either kind need not wait.
		txn(t, s, store.Lock(s.Keys().Leader(), []byte("m2"), 0, session(t, s)))
		txn(t, s, store.Lock(s.Keys().Member("m1"), []byte("alive"), 0, session(t, s)))
	})
}

func TestTheKeysOfAMemberThatIsNotClearStayForTheGrace(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, s *protocol.Store) {
		l := member(t, s, false)
		l.Clear = false
		_, err := s.Depart(t.Context(), l)
		must(t, err)
		wantKeys(t, s, append(inherited, neighbour...)...)
	})
}

// A successor has registered: neither its record nor what it inherited is the dead one's to take
// back, at once or late.
func TestAGoodbyeForAFormerSessionChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, s *protocol.Store) {
		l := member(t, s, true)
		must(t, s.DestroySession(t.Context(), l.Session))
		time.Sleep(2 * time.Second) // the lock-delay
		heir := session(t, s)
		txn(t, s, store.Lock(s.Keys().Member("m1"), []byte("alive"), 0, heir),
			store.Lock(s.Keys().Leader(), []byte("m1"), 0, heir))
		accepted, err := s.Depart(t.Context(), l)
		if accepted || err != nil {
			t.Errorf("accepted %v, %v", accepted, err)
		}
		want := append(append([]string{}, inherited...), neighbour...)
		wantKeys(t, s, append(want, "leader", "members/m1")...)
		if _, exists, err := s.SessionInfo(t.Context(), heir); err != nil || !exists {
			t.Errorf("the successor's session exists: %v, %v", exists, err)
		}
	})
}

// A record without a holder is a stranger's: no session matches nothing.
func TestAGoodbyeNamesItsSession(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, s *protocol.Store) {
		txn(t, s, store.Create(s.Keys().Member("m1"), []byte("alive")),
			store.Create(s.Keys().Leader(), nil))
		wantInvalid(t, s.Goodbye(t.Context(), protocol.Leaving{Member: "m1", Clear: true}))
		wantInvalid(t, s.Resign(t.Context(), "", 0, true))
		wantInvalid(t, s.Goodbye(t.Context(), protocol.Leaving{Member: "m1/x", Session: "s"}))
		wantKeys(t, s, "leader", "members/m1")
	})
}

func TestADepartureIsTriedUntilConsulAnswersOrTheTimeIsOver(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, s *protocol.Store) {
		l := member(t, s, true)
		away := time.Now().Add(7 * time.Second)
		flaky := over(t, transport.Func(func(r *http.Request) (*http.Response, error) {
			if time.Now().Before(away) {
				return nil, errors.New("connection refused")
			}
			return consul.RoundTripper().RoundTrip(r)
		}))
		short, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if accepted, err := flaky.Depart(short, l); accepted ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("accepted %v, %v", accepted, err)
		}
		accepted, err := flaky.Depart(t.Context(), l)
		if !accepted || err != nil {
			t.Errorf("accepted %v, %v", accepted, err)
		}
		wantKeys(t, s, neighbour...)
	})
}

// The answer was lost: the second try is refused, since the first one did it all.
func TestADepartureWhoseAnswerWasLostIsFinished(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, s *protocol.Store) {
		l, lost := member(t, s, true), 0
		mute := over(t, transport.Func(func(r *http.Request) (*http.Response, error) {
			resp, err := consul.RoundTripper().RoundTrip(r)
			if lost++; lost == 1 && err == nil {
				resp.Body.Close()
				return nil, errors.New("connection reset")
			}
			return resp, err
		}))
		if _, err := mute.Depart(t.Context(), l); err != nil {
			t.Error(err)
		}
		wantKeys(t, s, neighbour...)
	})
}
