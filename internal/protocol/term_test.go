package protocol_test

import (
	"errors"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/keys"
	"github.com/coordd/coordd/internal/testkit/transport"
)

func TestATermIsReadAsItWasWrittenAndOneThatCannotBeIsRefused(t *testing.T) {
	term := protocol.Term{Leader: "n1", Session: "s", By: protocol.Process{Instance: "i"}, After: 7,
		TTL: 10 * time.Second, Clear: true, Resigned: true}
	if got, err := protocol.ParseTerm(term.Encode()); err != nil || !reflect.DeepEqual(got, term) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "n1", "{}", `{"ttl":-1}`, `{"ttl":9223372036854775807}`,
		`{"ttl":"10s"}`, `{"leader":7,"ttl":10000000000}`, `{"ttl":10000000000`} {
		_, err := protocol.ParseTerm([]byte(bad))
		wantInvalid(t, err)
	}
}

// Whoever resigns for a session, the leader itself or its guard, says so where the next leader
// reads it; what the term says of leaders before stays as it is.
func TestADepartedLeadersTermSaysThatItHasResigned(t *testing.T) {
	for _, clear := range []bool{true, false} {
		bubble(t, func(t *testing.T, consul *devconsul.Server, s *protocol.Store) {
			l := member(t, s, true)
			term := protocol.Term{Leader: "m1", Session: l.Session, TTL: 20 * time.Second,
				Clear: clear}
			txn(t, s, store.Create(s.Keys().Term(), term.Encode()))
			_, err := s.Depart(t.Context(), l)
			must(t, err)
			_, e, err := s.ReadTerm(t.Context())
			must(t, err)
			got, err := protocol.ParseTerm(e.Value)
			must(t, err)
			if !got.Resigned || got.Clear != clear || got.TTL != term.TTL {
				t.Errorf("the term says %+v", got)
			}
		})
	}
}

// So may the leader itself, with what its stop has cut off.
func TestAResignationReadsAgainWhereOthersWriteInBetween(t *testing.T) {
	for _, key := range []string{"leader", "term"} {
		for _, times := range []int{1, 2, 3} {
			bubble(t, func(t *testing.T, consul *devconsul.Server, s *protocol.Store) {
				l, left := member(t, s, true), times
				txn(t, s, store.Create(s.Keys().Term(), protocol.Term{Leader: "m1",
					Session: l.Session, TTL: 20 * time.Second}.Encode()))
				to := consul.RoundTripper()
				busy := over(t, transport.When(to, transport.TxnWith("get-or-empty"),
					func(r *http.Request) (*http.Response, error) {
						resp, err := to.RoundTrip(r)
						if left--; left >= 0 {
							e, _, _, err := s.Get(t.Context(), s.Keys().Root()+key, 0)
							must(t, err)
							must(t, keys.Put(t.Context(), s, e.Key, e.Value, e.Flags+1))
						}
						return resp, err
					}))
				err := busy.Resign(t.Context(), l.Session, 0, true)
				leader, e, readErr := s.ReadTerm(t.Context())
				must(t, readErr)
				term, parseErr := protocol.ParseTerm(e.Value)
				must(t, parseErr)
				over := times < 3
				if want := map[bool]error{false: store.ErrUnreachable}[over]; !errors.Is(err, want) ||
					term.Resigned != over || (leader.Session == "") != over {
					t.Errorf("others write %d times to the %s key: %v, led by %q, %+v", times, key,
						err, leader.Session, term)
				}
			})
		}
	}
}
