package supervisor_test

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/coordd/coordd/supervisor"
)

// Restart goes down the tree beside the loops, which start new incarnations meanwhile. Under the
// race detector this finds a run that is shown before it is complete.
func TestARestartInsideOfATreeThatIsStartedAnewFindsTheWholeOfIt(t *testing.T) {
	idle := func(ctx context.Context) error { <-ctx.Done(); return nil }
	inside := &supervisor.Tree{}
	for i := range 50 {
		inside.Children = append(inside.Children,
			supervisor.Child{Name: strconv.Itoa(i), Run: idle})
	}
	up := make(chan struct{})
	s, err := supervisor.New("root", supervisor.Tree{Children: []supervisor.Child{
		{Name: "office", Tree: inside, Gate: true},
		{Name: "last", Run: func(ctx context.Context) error { close(up); return idle(ctx) }},
	}}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	<-up
	over := make(chan struct{})
	go func() {
		defer close(over)
		for range 200 {
			if err := s.Restart(ctx, "root/office"); err != nil {
				t.Error(err)
			}
		}
	}()
	for done := false; !done; {
		select {
		case <-over:
			done = true
		default:
		}
		err := s.Restart(ctx, "root/office/3")
		if err != nil && !errors.Is(err, supervisor.ErrStopped) {
			t.Fatalf("the child is there in each incarnation: %v", err)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
