package election

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/messages"
)

// scripted is a backend on which the candidate leads at once, and that shows what it is told to.
type scripted struct {
	contactBackend
	publish  func(View)
	released int
}

func (b *scripted) Join(context.Context, Candidate) (string, error) { return "s", nil }
func (b *scripted) Leave(context.Context) error                     { return nil }

func (b *scripted) Take(context.Context) (uint64, time.Duration, error) {
	b.publish(View{Ops: 9, Mine: true, Token: 7})
	return 7, 0, nil
}

func (b *scripted) Release(context.Context) error {
	b.released++
	b.publish(View{Ops: 9})
	return nil
}

func (b *scripted) Watch(ctx context.Context, publish func(View)) {
	b.publish = publish
	publish(View{Ops: 9, Turn: true})
	<-ctx.Done()
}

func (b *scripted) Open(string) (Backend, error) { return b, nil }

// What was said before the leader was told to stop says nothing, in whatever order the two arrive.
func TestDrainedBeforeItIsAskedForGivesNothingUp(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			lease := messages.Lease{Start: time.Now(), TTL: time.Hour}
			contact := messages.NewState(Contact{Session: "s", Lease: lease})
			b := &scripted{contactBackend: contactBackend{contact: contact}}
			log := slog.New(slog.NewTextHandler(io.Discard, nil))
			e, err := New(b, Config{Election: "demo", Name: "n", Logger: log})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := e.Nominate(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if s := e.Status(); s.Role != Leading {
				t.Fatalf("it is told %v", s)
			}
			b.publish(View{Ops: 9, Mine: true, Token: 7, Yield: "another"})
			e.Drained()
			synctest.Wait()
			if s := e.Status(); s.Role != Draining || b.released != 0 {
				t.Errorf("given up %d times, though nothing has ended: %v", b.released, s)
			}
			e.Drained()
			synctest.Wait()
			if b.released != 1 {
				t.Error("the leadership was not given up when the duties had ended")
			}
			e.Resign()
			<-e.Done()
		})
	}
}
