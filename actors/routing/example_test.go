package routing_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/actors/routing"
)

// A router names the owner of an item, and its address.
func Example() {
	client, closeConsul := consulClient() // a *api.Client of Consul's own library
	defer closeConsul()
	quiet := slog.New(slog.DiscardHandler)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var running sync.WaitGroup
	working := make(chan struct{})

	member, err := actors.New(actors.Config{
		Service: "demo",
		ID:      "n1",
		Address: "10.0.0.7:9000",
		Client:  client,
		Logger:  quiet,
		Work: func(ctx context.Context, _ actors.Item) error {
			close(working)
			<-ctx.Done()
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	running.Go(func() { _ = member.Run(ctx) })
	op, err := operator.New(client, "demo")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := op.AddWork(ctx, operator.WorkInput{ID: "device_1"}); err != nil {
		fmt.Println(err)
	}

	router, err := routing.New(routing.Config{Service: "demo", Client: client, Logger: quiet})
	if err != nil {
		fmt.Println(err)
		return
	}
	running.Go(func() { _ = router.Run(ctx) })
	<-working
	at, err := router.Locate(ctx, "device_1")
	fmt.Println(at.Member, at.Address, err)
	_, err = router.Locate(ctx, "device_2")
	fmt.Println(err)

	stop()
	running.Wait()
	// Output:
	// n1 10.0.0.7:9000 <nil>
	// item "device_2" is not in the workload
}
