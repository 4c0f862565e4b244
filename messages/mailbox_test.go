package messages_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/messages"
)

func TestARequestGetsItsReceiversAnswer(t *testing.T) {
	m := messages.NewMailbox[int, string]()
	go func() {
		r := <-m.Requests()
		r.Handle(func(_ context.Context, n int) (string, error) { return fmt.Sprint(n * 2), nil })
	}()
	if got, err := m.Call(t.Context(), 21); got != "42" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestARequestOutlivesTheReceiverThatWasRestartedBeforeTakingIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := messages.NewMailbox[int, int]()
		time.AfterFunc(time.Minute, func() { (<-m.Requests()).Reply(7, nil) }) // the next incarnation
		if got, err := m.Call(t.Context(), 1); got != 7 || err != nil {
			t.Errorf("got %d, %v", got, err)
		}
	})
}

func TestARequestInTheHandsOfAReceiverThatPanicsIsAbandoned(t *testing.T) {
	m := messages.NewMailbox[int, int]()
	go func() {
		defer func() { _ = recover() }()
		(<-m.Requests()).Handle(func(context.Context, int) (int, error) { panic("at work") })
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
					r := <-m.Requests()
					<-r.Context().Done() // the receiver can tell that nobody waits any more
					r.Reply(1, nil)
				}()
			}
			if _, err := m.Call(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("taken %v: got %v", taken, err)
			}
			cancel()
		}
	})
}

func TestOnlyTheFirstAnswerCounts(t *testing.T) {
	m := messages.NewMailbox[int, int]()
	go func() {
		r := <-m.Requests()
		r.Reply(1, nil)
		r.Reply(2, errors.New("late"))
	}()
	if got, err := m.Call(t.Context(), 1); got != 1 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
}
