package supervisor_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/supervisor"
)

// Both deadlines pass at one instant: that of the child, and that of the whole stop.
func TestAChildThatHangsIsAbandonedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(time.Minute)
			return nil
		}
		tree := supervisor.Tree{Children: []supervisor.Child{
			{Name: "a", Run: hangs, StopTimeout: 3 * time.Second},
			{Name: "b", Run: hangs, StopTimeout: 3 * time.Second}}}
		sup, err := supervisor.New("root", tree, quiet, supervisor.WithStopTimeout(3*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		t.Log(sup.Run(ctx) != nil)
		time.Sleep(2 * time.Minute)
	})
}
