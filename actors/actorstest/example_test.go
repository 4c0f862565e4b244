package actorstest_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/actorstest"
)

// poll is the service's work: it polls one device until the item is taken from this member.
func poll(ctx context.Context, _ actors.Item) error {
	<-ctx.Done()
	return nil
}

// The test: the devices of a member that is lost are polled by the other one.
func everyDeviceIsPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := actorstest.New(t)
		c.AddWork("device_1", "device_2")
		a := c.Start("a", poll)
		c.Start("b", poll)
		c.Await(10*time.Second, "both to run", func() bool { return len(c.Workers()) == 2 })
		lost := time.Now()
		a.Lose() // as a machine that burns
		c.Await(30*time.Second, "b to have both", func() bool {
			w := c.Workers()
			return w["device_1"] == "b" && w["device_2"] == "b"
		})
		fmt.Println("within 19 s:", time.Since(lost) <= 19*time.Second) // of virtual time
	})
}

func Example() {
	fmt.Println("passed:", goTest(everyDeviceIsPolled))
	// Output:
	// within 19 s: true
	// passed: true
}
