package leader

import (
	"log/slog"
	"testing"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cells are what an assigner looks at.
type cells struct {
	leadership *messages.State[facts.Leadership]
	members    *messages.State[facts.Members]
	acks       *messages.State[facts.Acks]
	workload   *messages.State[facts.Workload]
	control    *messages.State[facts.Control]
}

func newCells() cells {
	return cells{messages.NewState(facts.Leadership{}),
		messages.NewState(facts.Members{Index: 1}), messages.NewState(facts.Acks{}),
		messages.NewState(facts.Workload{Index: 1}),
		messages.NewState(facts.Control{Index: 1})}
}

// assigner is one that does not run, of term 1, with an empty Consul.
func (v cells) assigner(t *testing.T, set actor.Settings,
	bump *messages.Mailbox[facts.Bump, facts.Leadership]) *Assigner {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	consul := devconsul.New(devconsul.Config{Logger: quiet})
	t.Cleanup(consul.Close)
	s, err := protocol.New("demo", store.Config{Client: consul.Client()})
	if err != nil {
		t.Fatal(err)
	}
	set.Service, set.ID = "demo", "n1"
	return NewAssigner(actor.NewBase(set, s, quiet), 1, v.leadership.Reader(), v.members.Reader(),
		v.acks.Reader(), v.workload.Reader(), v.control.Reader(), bump,
		messages.NewState(facts.Distribution{}), messages.NewState(facts.Unfit{}))
}
