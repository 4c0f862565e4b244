package member

import (
	"log/slog"
	"net/http"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/coordd/coordd/messages"
)

// cutOff is a keeper none of whose requests arrives. It has registered under a session that is over
// and has another one.
func cutOff(t *testing.T) (a *MembershipKeeper, out *messages.State[facts.Membership]) {
	t.Helper()
	client, err := store.NewClient(&api.Config{Address: "consul.test",
		HttpClient: &http.Client{Transport: transport.Fail(transport.ErrReset)}})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	s, err := protocol.New("demo", store.Config{Client: client, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	out = messages.NewState(facts.Membership{Phase: facts.Registered, Session: "earlier"})
	b := actor.NewBase(actor.Settings{Service: "demo", ID: "n1", TTL: store.DefaultTTL}, s, log)
	return NewMembershipKeeper(b, out, messages.NewState(facts.Session{ID: "own"}).Reader(),
		messages.NewState(OwnRecord{}).Reader(), messages.NewState(facts.Holdings{}).Reader(),
		messages.NewState(uint64(0)).Reader(), messages.NewMailbox[LeaveOrder, struct{}](),
		messages.NewMailbox[AckWrite, struct{}]()), out
}

func TestARecordOfASessionThatIsOverIsNotMarked(t *testing.T) {
	a, out := cutOff(t)
	before := out.Get()
	if _, err := a.markLeaving(t.Context(), LeaveOrder{}); err != nil {
		t.Errorf("it asks Consul: %v", err)
	}
	if now := out.Get(); now != before {
		t.Errorf("it says %+v, and was %+v", now, before)
	}
}
