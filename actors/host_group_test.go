package actors_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/supervisor"
)

// A member runs once. A host that goes on without the one that it has stopped runs no items, and
// nobody would hear of it.
func TestAMemberThatIsStoppedWithItsGroupEndsTheHost(t *testing.T) {
	for _, strategy := range []supervisor.Strategy{supervisor.OneForAll, supervisor.RestForOne} {
		t.Run(strategy.String(), func(t *testing.T) {
			run(t, func(c *cluster) {
				m, err := actors.New(actors.Config{Service: "demo", ID: "n1",
					Client: c.consul.Client(), Logger: c.log})
				if err != nil {
					t.Fatal(err)
				}
				fails := func(ctx context.Context) error {
					select {
					case <-time.After(10 * time.Second):
						return errors.New("no connection")
					case <-ctx.Done():
						return nil
					}
				}
				host, err := supervisor.New("host", supervisor.Tree{Strategy: strategy,
					Children: []supervisor.Child{{Name: "db", Run: fails}, m.Child("member")}},
					supervisor.WithLogger(c.log))
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				if err := host.Run(ctx); !errors.Is(err, actors.ErrStarted) {
					t.Errorf("the host ended with %v, %s", err, host.Report().Children[1].State)
				}
			})
		})
	}
}
