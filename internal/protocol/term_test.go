package protocol_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

func TestATermIsReadAsItWasWrittenAndOneThatCannotBeIsRefused(t *testing.T) {
	term := protocol.Term{Leader: "n1", Session: "s", By: protocol.Process{Instance: "i"}, After: 7,
		TTL: 10 * time.Second, Clear: true, Resigned: true, Past: []string{"n2"}}
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
