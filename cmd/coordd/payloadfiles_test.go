package main

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/guard"
)

// The disk of the payloads hangs at the first write, at the write of a change, or at the removal:
// the work returns all the same when it is told to, so that its item can be given up.
func TestAHungDiskOfPayloadsKeepsNoItem(t *testing.T) {
	for _, hangs := range []string{"one", "two", "removal"} {
		t.Run(hangs, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				works := make(chan struct{}) // closed when the disk does
				var done []string
				do := func(what string) error {
					if what == hangs {
						<-works
					}
					done = append(done, what)
					return nil
				}
				c := &commands{guard: guard.New(guard.Config{}), payloads: newPayloadFiles()}
				c.payloads.write = func(_ string, i actors.Item) error {
					return do(string(i.Payload))
				}
				c.payloads.remove = func(string) error { return do("removal") }
				changes := make(chan []byte, 1)
				item := actors.Item{ID: "a", Payload: []byte("one"), Changes: changes}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- c.execSignalled(ctx, item, guard.Spec{Name: "a"}) }()
				time.Sleep(time.Minute)
				changes <- []byte("two")
				time.Sleep(time.Minute)
				cause := context.Canceled
				if hangs == "one" { // nobody waits for it: the host is at fault
					cause = errNotWritten
				} else {
					cancel()
				}
				told := time.Now()
				time.Sleep(removeLimit)
				synctest.Wait()
				select {
				case err := <-ended:
					if !errors.Is(err, cause) {
						t.Errorf("it ended with %v", err)
					}
				default:
					t.Errorf("it has not ended %v after it was told to", time.Since(told))
				}
				cancel()

				// It runs here again. What hung comes first, and undoes nothing that comes later.
				item.Payload, item.Changes = []byte("three"), make(chan []byte)
				ctx, cancel = context.WithCancel(t.Context())
				defer cancel()
				again := func() { ended <- c.execSignalled(ctx, item, guard.Spec{Name: "a"}) }
				for range 5 { // as its member calls it
					go again()
					time.Sleep(time.Minute)
					if err := <-ended; !errors.Is(err, errNotWritten) {
						t.Errorf("it ended with %v", err)
					}
				}
				go again()
				time.Sleep(time.Second)
				close(works)
				synctest.Wait()
				want := map[string][]string{
					"one":     {"one", "removal", "three"},
					"two":     {"one", "two", "removal", "three"},
					"removal": {"one", "two", "removal", "three"},
				}[hangs]
				if !slices.Equal(done, want) {
					t.Errorf("%q was done, want %q", done, want)
				}
				cancel()
				<-ended
			})
		})
	}
}
