package election

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/messages"
)

// contactBackend is a backend that knows nothing but its contact.
type contactBackend struct {
	Backend
	contact *messages.State[Contact]
}

func (b contactBackend) Contact() messages.Reader[Contact] { return b.contact.Reader() }

// The process may have been frozen between the last look at the lease and the beginning of the
// duty.
func TestTheLeaseIsLookedAtOnceMoreBeforeTheDutyBegins(t *testing.T) {
	for name, c := range map[string]Contact{
		"a lease that is over": {Session: "s",
			Lease: facts.Lease{Start: time.Now().Add(-31 * time.Second), TTL: 10 * time.Second}},
		"a lease that is in its margin": {Session: "s",
			Lease: facts.Lease{Start: time.Now().Add(-9500 * time.Millisecond),
				TTL: 10 * time.Second}},
		"a lease of another session": {Session: "other",
			Lease: facts.Lease{Start: time.Now(), TTL: 10 * time.Second}},
		"a connection without any session": {},
	} {
		begun := false
		cfg := Config{Election: "demo", Name: "n", Lead: func(context.Context, Status) error {
			begun = true
			return nil
		}}
		log := slog.New(slog.NewTextHandler(io.Discard, nil))
		e := &Election{cfg: cfg, backend: contactBackend{contact: messages.NewState(c)}, log: log,
			state: messages.NewState(Status{})}
		s := &shell{Election: e, machine: newMachine(cfg, Candidate{}, false),
			duties: make(chan error, 1)}
		s.machine.session, s.machine.contact = "s",
			Contact{Session: "s", Lease: facts.Lease{Start: time.Now(), TTL: 10 * time.Second}}
		s.startDuty(t.Context())
		if err := <-s.duties; err != errNotBegun || begun {
			t.Errorf("with %s the duty has begun: %v (%v)", name, begun, err)
		}
		s.stopDuty()
		s.group.Wait()
	}
}

// What a duty returns after it was told to stop says nothing; what it returned before is its end,
// also when that is heard of later.
func TestADutyEndsByItselfOnlyBeforeItIsToldToStop(t *testing.T) {
	for _, obeys := range []bool{false, true} {
		contact := Contact{Session: "s", Lease: facts.Lease{Start: time.Now(), TTL: time.Hour}}
		cfg := Config{Election: "demo", Name: "n", Lead: func(ctx context.Context, _ Status) error {
			if obeys {
				<-ctx.Done()
			}
			return io.EOF
		}}
		e := &Election{cfg: cfg, backend: contactBackend{contact: messages.NewState(contact)},
			log: slog.New(slog.DiscardHandler), state: messages.NewState(Status{})}
		s := &shell{Election: e, machine: newMachine(cfg, Candidate{}, false),
			duties: make(chan error, 1)}
		s.machine.session, s.machine.contact = "s", contact
		s.startDuty(t.Context())
		want := error(errToldToStop)
		if !obeys {
			want = io.EOF
			s.group.Wait() // it has returned
		}
		s.stopDuty()
		if err := <-s.duties; err != want {
			t.Errorf("a duty that obeys (%v) ended with %v, want %v", obeys, err, want)
		}
		s.group.Wait()
	}
}
