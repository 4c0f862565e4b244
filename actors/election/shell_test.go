package election

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/coordd/coordd/messages"
)

// told is a backend that knows nothing but its contact.
type told struct {
	Backend
	contact *messages.State[Contact]
}

func (b told) Contact() messages.Reader[Contact] { return b.contact.Reader() }

// The process may have been frozen between the last look at the lease and the beginning of the duty.
func TestTheLeaseIsLookedAtOnceMoreBeforeTheDutyBegins(t *testing.T) {
	for name, c := range map[string]Contact{
		"a lease that is over":             {Session: "s", Lease: messages.Lease{Start: time.Now().Add(-31 * time.Second), TTL: 10 * time.Second}},
		"a lease that is in its margin":    {Session: "s", Lease: messages.Lease{Start: time.Now().Add(-9500 * time.Millisecond), TTL: 10 * time.Second}},
		"a lease of another session":       {Session: "other", Lease: messages.Lease{Start: time.Now(), TTL: 10 * time.Second}},
		"a connection without any session": {},
	} {
		begun := false
		cfg := Config{Election: "demo", Name: "n", Lead: func(context.Context, Status) error { begun = true; return nil }}
		log := slog.New(slog.NewTextHandler(io.Discard, nil))
		e := &Election{cfg: cfg, backend: told{contact: messages.NewState(c)}, log: log, state: messages.NewState(Status{})}
		s := &shell{Election: e, machine: newMachine(cfg, Candidate{}, false), duties: make(chan error, 1)}
		s.machine.session, s.machine.contact = "s", Contact{Session: "s", Lease: messages.Lease{Start: time.Now(), TTL: 10 * time.Second}}
		s.begin(t.Context())
		if err := <-s.duties; err != errNotBegun || begun {
			t.Errorf("with %s the duty has begun: %v (%v)", name, begun, err)
		}
		s.stopDuty()
		s.group.Wait()
	}
}
