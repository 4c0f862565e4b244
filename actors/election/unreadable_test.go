package election

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"testing"
	"time"

	"github.com/coordd/coordd/messages"
)

// anyError is an error that says of itself that it is any other.
type anyError struct{}

func (anyError) Error() string   { return "the duty failed" }
func (anyError) Is(_ error) bool { return true }

func TestALeadWhoseErrorCannotBeReadHasFailedLikeAnyOther(t *testing.T) {
	var typed *fs.PathError
	for name, lead := range map[string]func(context.Context, Status) error{
		"returns a nil pointer in an error": func(context.Context, Status) error {
			return typed
		},
		"returns a wrapped nil pointer": func(context.Context, Status) error {
			return fmt.Errorf("w: %w", error(typed))
		},
		"returns an error that is like every other": func(context.Context, Status) error {
			return anyError{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			contact := Contact{Session: "s", Lease: messages.Lease{Start: time.Now(),
				TTL: 10 * time.Second}}
			cfg := Config{Election: "demo", Name: "n", Lead: lead}
			e := &Election{cfg: cfg, backend: contactBackend{contact: messages.NewState(contact)},
				log: slog.New(slog.DiscardHandler), state: messages.NewState(Status{})}
			s := &shell{Election: e, machine: newMachine(cfg, Candidate{}, false),
				duties: make(chan error, 1)}
			s.machine.session, s.machine.contact, s.machine.leading = "s", contact, true
			s.startDuty(t.Context())
			err := <-s.duties
			if err == nil {
				t.Fatal("it has not failed")
			}
			s.machine.dutyEnded(err)
			if s.machine.dutyErr == nil || s.machine.dutyErr.Error() == "" {
				t.Errorf("it failed with %v", s.machine.dutyErr)
			}
			s.stopDuty()
			s.group.Wait()
		})
	}
}
