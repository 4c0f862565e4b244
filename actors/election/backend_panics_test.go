package election

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/messages"
)

// panicking is a backend on which the candidate leads at once, and that fails in one method.
type panicking struct {
	scripted
	in    string
	fails func()
}

func (b *panicking) Open(string) (Backend, error) { return b, nil }

func (b *panicking) at(method string) {
	if b.in == method {
		b.fails()
	}
}

func (b *panicking) Contact() messages.Reader[Contact] {
	b.at("Contact")
	return b.scripted.Contact()
}

func (b *panicking) Watch(ctx context.Context, publish func(View)) {
	b.at("Watch")
	if b.in != "HandOver" {
		b.scripted.Watch(ctx, publish)
		return
	}
	publish(View{Ops: 9, Leader: Candidate{ID: "other", Priority: -1}, Token: 3})
	<-ctx.Done()
}

func (b *panicking) Join(ctx context.Context, c Candidate) (string, error) {
	b.at("Join")
	return b.scripted.Join(ctx, c)
}

func (b *panicking) Take(ctx context.Context) (uint64, time.Duration, error) {
	b.at("Take")
	return b.scripted.Take(ctx)
}

func (b *panicking) Release(ctx context.Context) error {
	b.at("Release")
	return b.scripted.Release(ctx)
}

func (b *panicking) HandOver(context.Context, string, uint64) error {
	b.at("HandOver")
	return nil
}

func (b *panicking) Leave(ctx context.Context) error {
	b.at("Leave")
	return b.scripted.Leave(ctx)
}

// quarrelsome is an error that cannot be compared with any other.
type quarrelsome struct{}

func (quarrelsome) Error() string { return "quarrelsome" }
func (quarrelsome) Is(error) bool { panic("compared") }

// seen is what has become of an election whose backend fails.
type seen struct {
	*Election
	backend *panicking
	logs    bytes.Buffer
	duty    atomic.Bool // the Lead function runs
	last    Status      // of the channel
}

// nominate lets a candidate lead over a backend that fails in one method, and then then.
func nominate(t *testing.T, in string, fails, then func(*seen)) *seen {
	t.Helper()
	s := &seen{backend: &panicking{in: in}}
	s.backend.fails = func() { fails(s) }
	s.backend.contactBackend = contactBackend{contact: messages.NewState(Contact{Session: "s",
		Lease: facts.Lease{Start: time.Now(), TTL: time.Hour}})}
	e, err := New(s.backend, Config{Election: "demo", Name: "n", Preempt: true,
		Logger: slog.New(slog.NewTextHandler(&s.logs, nil)),
		Lead: func(ctx context.Context, _ Status) error {
			s.duty.Store(true)
			defer s.duty.Store(false)
			s.backend.at("Lead")
			<-ctx.Done()
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	s.Election = e
	news, err := e.Nominate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	if then != nil {
		then(s)
	}
	for s.last = range news {
		continue
	}
	synctest.Wait()
	return s
}

// A panic where no supervisor watches would end the process, and with it all that runs there.
func TestABackendThatPanicsEndsItsElectionAndNothingElse(t *testing.T) {
	makeWay := func(s *seen) {
		s.backend.publish(View{Ops: 9, Mine: true, Token: 7, Yield: "another"})
	}
	for in, then := range map[string]func(*seen){
		"Contact": nil, "Watch": nil, "Join": nil, "Take": nil, "HandOver": nil, "Lead": nil,
		"Release": makeWay,
		"Leave":   func(s *seen) { s.Resign() },
		"a view":  func(s *seen) { s.backend.publish(View{Ops: 9, Err: quarrelsome{}}) },
	} {
		t.Run(in, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := nominate(t, in, func(*seen) { panic("not today") }, then)
				if s.last.Role != Out || s.State().Get().Role != Out ||
					in != "Leave" && !errors.Is(s.last.Err, ErrBroken) {
					t.Errorf("it ends with %v", s.last)
				}
				if s.duty.Load() {
					t.Error("its duty goes on")
				}
				if in != "Contact" && in != "Watch" && in != "Leave" && !s.backend.left.Load() {
					t.Error("its record is not given up")
				}
				if !strings.Contains(s.logs.String(), "msg=election-panicked") {
					t.Errorf("the stack is not logged: %s", &s.logs)
				}
			})
		})
	}
}

func TestAWatchThatReturnsByItselfIsBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b watchless
		b.contact = messages.NewState(Contact{})
		e, err := New(&b, Config{Election: "demo", Name: "n",
			Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Follow(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-e.Done()
		if !errors.Is(e.Err(), ErrBroken) {
			t.Errorf("it ends with %v", e.Err())
		}
	})
}

// watchless is a backend whose watch is over at once.
type watchless struct{ contactBackend }

func (b *watchless) Open(string) (Backend, error)      { return b, nil }
func (b *watchless) Watch(context.Context, func(View)) {}

// Without a Lead function nobody but the host knows when the duty has ended.
func TestABrokenLoopKeepsTheRecordUntilTheHostHasStopped(t *testing.T) {
	for how, stop := range map[string]func(*Election){
		"drained": (*Election).Drained,
		"resign":  (*Election).Resign,
		"nothing": func(*Election) { time.Sleep(time.Hour) },
	} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var b scripted
				var logs bytes.Buffer
				e := b.lead(t.Context(), t, &logs)
				b.publish(View{Ops: 9, Err: quarrelsome{}})
				time.Sleep(time.Minute)
				if s := e.State().Get(); s.Role != Out || !errors.Is(s.Err, ErrBroken) {
					t.Errorf("it is told %v", s)
				}
				if b.left.Load() {
					t.Error("its record is given up while its duty goes on")
				}
				stop(e)
				<-e.Done()
				if !b.left.Load() {
					t.Error("its record is never given up")
				}
			})
		})
	}
}
