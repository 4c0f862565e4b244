package messages_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/messages"
)

func TestARequestGetsItsReceiversAnswer(t *testing.T) {
	m := messages.NewMailbox[int, string]()
	in := m.Open()
	go func() {
		r := <-in.Requests()
		r.Handle(func(_ context.Context, n int) (string, error) { return fmt.Sprint(n * 2), nil })
	}()
	if got, err := m.Call(t.Context(), 21); got != "42" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestARequestOutlivesTheReceiverThatWasRestartedBeforeTakingIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := messages.NewMailbox[int, int]()
		m.Open().Close() // of the one that was restarted
		time.AfterFunc(time.Minute, func() { (<-m.Open().Requests()).Reply(7, nil) })
		if got, err := m.Call(t.Context(), 1); got != 7 || err != nil {
			t.Errorf("got %d, %v", got, err)
		}
	})
}

func TestARequestInTheHandsOfAReceiverThatPanicsIsAbandoned(t *testing.T) {
	m := messages.NewMailbox[int, int]()
	go func() {
		defer func() { _ = recover() }()
		(<-m.Open().Requests()).Handle(func(context.Context, int) (int, error) { panic("at work") })
	}()
	if _, err := m.Call(t.Context(), 1); !errors.Is(err, messages.ErrAbandoned) {
		t.Errorf("got %v", err)
	}
}

func TestACallEndsWithItsContextTakenOrNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := messages.NewMailbox[int, int]()
		for _, taken := range []bool{false, true} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if taken {
				go func() {
					r := <-m.Open().Requests()
					<-r.Context().Done() // the receiver can tell that nobody waits any more
					time.Sleep(time.Second)
					r.Reply(1, nil)
				}()
			}
			if _, err := m.Call(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("taken %v: got %v", taken, err)
			}
			cancel()
		}
		time.Sleep(2 * time.Second) // the receiver's answer, which nobody waits for
	})
}

func TestOnlyTheFirstAnswerCounts(t *testing.T) {
	m := messages.NewMailbox[int, int]()
	go func() {
		r := <-m.Open().Requests()
		r.Reply(1, nil)
		r.Reply(2, errors.New("late"))
	}()
	if got, err := m.Call(t.Context(), 1); got != 1 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
}

func TestAReceiverThatEndsWithARequestInHandAbandonsIt(t *testing.T) {
	for name, end := range map[string]func(){"returns": func() {}, "panics": func() {
		panic("between take and reply")
	}, "exits": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := messages.NewMailbox[int, int]()
				go func() {
					defer func() { _ = recover() }()
					in := m.Open()
					defer in.Close()
					<-in.Requests()
					time.Sleep(time.Second)
					end()
				}()
				begin := time.Now()
				if _, err := m.Call(t.Context(), 1); !errors.Is(err, messages.ErrAbandoned) ||
					time.Since(begin) != time.Second {
					t.Errorf("got %v after %v", err, time.Since(begin))
				}
			})
		})
	}
}

func TestAKeptRequestIsAnsweredByTheNextIncarnation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := messages.NewMailbox[int, int]()
		go func() {
			in := m.Open()
			r := <-in.Requests()
			r.Keep()
			in.Close()
			time.Sleep(time.Minute)
			r.Reply(7, nil)
		}()
		if got, err := m.Call(t.Context(), 1); got != 7 || err != nil {
			t.Errorf("got %d, %v", got, err)
		}
	})
}

func TestACallBackToWhoWaitsForItIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := messages.NewMailbox[int, int](), messages.NewMailbox[int, int]()
		serve := func(m *messages.Mailbox[int, int], f func(context.Context, int) (int, error)) {
			in := m.Open()
			go func() {
				defer in.Close()
				for {
					select {
					case r := <-in.Requests():
						r.Handle(f)
					case <-t.Context().Done():
						return
					}
				}
			}()
		}
		serve(a, func(ctx context.Context, n int) (int, error) {
			if n == 0 {
				return a.Call(ctx, 1) // to itself
			}
			return b.Call(ctx, n) // by way of another
		})
		serve(b, func(ctx context.Context, n int) (int, error) {
			if n == 1 {
				return a.Call(ctx, n)
			}
			return n, nil
		})
		begin := time.Now()
		for n := range 2 {
			if _, err := a.Call(t.Context(), n); !errors.Is(err, messages.ErrCycle) ||
				time.Since(begin) != 0 {
				t.Errorf("%d: got %v after %v", n, err, time.Since(begin))
			}
		}
		if got, err := a.Call(t.Context(), 2); got != 2 || err != nil {
			t.Errorf("a call that is no cycle: got %d, %v", got, err)
		}
	})
}

// With an ended context the outcome is the same each time.
func TestACallWithTheContextOfWhatWasHandledIsNoCallBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := messages.NewMailbox[int, int]()
		later := make(chan error, 1)
		go func() {
			in := m.Open()
			defer in.Close()
			(<-in.Requests()).Handle(func(ctx context.Context, n int) (int, error) {
				time.AfterFunc(time.Second, func() {
					_, err := m.Call(ctx, 2)
					later <- err
				})
				return n, nil
			})
			(<-in.Requests()).Reply(2, nil)
		}()
		if _, err := m.Call(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if err := <-later; err != nil {
			t.Errorf("a call that was made after the answer: %v", err)
			_, _ = m.Call(t.Context(), 3)
		}
	})
}

func TestAnAnswerThatWasGivenIsNotLostToAnEndedContext(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 1000 {
		m := messages.NewMailbox[int, int]()
		ctx, cancel := context.WithCancel(t.Context())
		in := m.Open()
		done := make(chan struct{})
		go func() {
			defer close(done)
			r := <-in.Requests()
			r.Reply(1, nil)
			cancel()
			select {
			case <-in.Requests():
				t.Error("a call with an ended context was handed over")
			case <-time.After(10 * time.Microsecond):
			}
		}()
		if got, err := m.Call(ctx, 1); got != 1 || err != nil {
			t.Fatalf("got %d, %v", got, err)
		}
		if _, err := m.Call(ended, 1); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
		<-done
		state := messages.NewState(1)
		if got, err := state.Reader().Wait(ended, func(int) bool {
			return true
		}); got != 1 || err != nil {
			t.Fatalf("Wait for a value that is there: got %d, %v", got, err)
		}
		if got, err := state.Reader().Wait(ended, func(int) bool {
			return false
		}); got != 0 || !errors.Is(err, context.Canceled) {
			t.Fatalf("Wait for a value that is not there: got %d, %v", got, err)
		}
		if got, err := state.Subscribe().Next(ended); got != 0 ||
			!errors.Is(err, context.Canceled) {
			t.Fatalf("Next: got %d, %v", got, err)
		}
	}
}
