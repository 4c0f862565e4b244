package actors_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/operator"
)

// One member: it takes the item, works on it, and hands
// everything over when its context ends.
func Example() {
	client, closeConsul := consulClient() // a *api.Client of Consul's own library
	defer closeConsul()

	ctx, stop := context.WithCancel(context.Background())
	c, err := actors.New(actors.Config{
		Service: "demo",
		ID:      "n1",
		Client:  client,
		Logger:  slog.New(slog.DiscardHandler),
		Work: func(ctx context.Context, item actors.Item) error {
			fmt.Printf("working on %s: %s\n", item.ID, item.Payload)
			stop()
			<-ctx.Done() // the item must be given up; returning releases it
			fmt.Println("stopped")
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	op, err := operator.New(client, "demo")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := op.AddWork(ctx, operator.WorkInput{ID: "device_1",
		Payload: []byte("every 5 s")}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("ended with", c.Run(ctx))
	// Output:
	// working on device_1: every 5 s
	// stopped
	// ended with <nil>
}
