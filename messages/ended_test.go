package messages_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/coordd/coordd/messages"
)

// A receiver comes back, and in the same moment the caller's time is over: the call waits for the
// receiver, and is woken by it.
func TestNothingIsHandedOverUnderAContextThatHasEnded(t *testing.T) {
	handed := 0
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			m := messages.NewMailbox[int, int]()
			ctx, cancel := context.WithCancel(t.Context())
			over := make(chan error, 1)
			go func() {
				_, err := m.Call(ctx, 1)
				over <- err
			}()
			synctest.Wait()
			in := m.Open()
			defer in.Close()
			cancel()
			select {
			case <-in.Requests():
				handed++
				in.Close()
				<-over
			case err := <-over:
				if !errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
			}
		})
	}
	if handed != 0 {
		t.Errorf("%d of 200 calls with an ended context were handed over", handed)
	}
}

func TestAnAnswerToTheZeroRequestBlocksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r messages.Request[int, int]
		go r.Reply(1, nil)
	})
}
