package election

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/messages"
)

// scripted is a backend on which the candidate leads at once, and that shows what it is told to.
type scripted struct {
	contactBackend
	publish  func(View)
	released int
	left     atomic.Bool
}

func (b *scripted) Join(context.Context, Candidate) (string, error) { return "s", nil }

func (b *scripted) Leave(context.Context) error {
	b.left.Store(true)
	return nil
}

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

// lead nominates a candidate without a Lead function that leads at once.
func (b *scripted) lead(ctx context.Context, t *testing.T, logs io.Writer) *Election {
	t.Helper()
	lease := facts.Lease{Start: time.Now(), TTL: time.Hour}
	b.contactBackend = contactBackend{contact: messages.NewState(Contact{Session: "s",
		Lease: lease})}
	e, err := New(b, Config{Election: "demo", Name: "n",
		Logger: slog.New(slog.NewTextHandler(logs, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Nominate(ctx); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	if s := e.State().Get(); s.Role != Leading {
		t.Fatalf("it is told %v", s)
	}
	return e
}

// A host that ends its context and says nothing more must not hold the leadership for ever.
func TestALeaderThatForgetsToSayDrainedIsWaitedForWithABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var b scripted
		var logs bytes.Buffer
		e := b.lead(ctx, t, &logs)
		cancel()
		time.Sleep(DefaultDrainTimeout - time.Millisecond)
		synctest.Wait()
		if s := e.State().Get(); s.Role != Draining || b.left.Load() {
			t.Errorf("%v: given up before the time is over: %v", DefaultDrainTimeout, s)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		select {
		case <-e.Done():
		default:
			t.Fatalf("it holds the leadership for ever: %v", e.State().Get())
		}
		if s := e.State().Get(); s.Role != Out || !s.Resigned || !b.left.Load() {
			t.Errorf("it ends with %v", s)
		}
		if !strings.Contains(logs.String(), "msg=drained-not-called") {
			t.Errorf("nobody is told: %s", &logs)
		}
	})
}

// A leader that is asked to make way for another one may take as long as it needs.
func TestAHandOverWaitsForDrainedWithoutABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b scripted
		e := b.lead(t.Context(), t, io.Discard)
		b.publish(View{Ops: 9, Mine: true, Token: 7, Yield: "another"})
		time.Sleep(10 * DefaultDrainTimeout)
		synctest.Wait()
		if s := e.State().Get(); s.Role != Draining || b.released != 0 {
			t.Errorf("given up %d times, though nobody said so: %v", b.released, s)
		}
		e.Resign()
		<-e.Done()
	})
}

// What was said before the leader was told to stop says nothing, in whatever order the two arrive.
func TestDrainedBeforeItIsAskedForGivesNothingUp(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			var b scripted
			e := b.lead(t.Context(), t, io.Discard)
			e.Drained()
			b.publish(View{Ops: 9, Mine: true, Token: 7, Yield: "another"})
			synctest.Wait()
			if s := e.State().Get(); s.Role != Draining || b.released != 0 {
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
