package configstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/coordd/coordd/actors/configstore"
)

// A value is written, read, and replaced only if nobody else was faster.
func Example() {
	client, closeConsul := consulClient() // a *api.Client of Consul's own library
	defer closeConsul()

	s, err := configstore.New(configstore.Config{
		Service: "demo",
		Client:  client,
		Logger:  slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()

	if _, err := s.Put(ctx, "limits/rate", []byte("50")); err != nil {
		fmt.Println(err)
	}
	entry, err := s.Get(ctx, "limits/rate")
	fmt.Printf("%s, %v\n", entry.Value, err)
	_, err = s.CompareAndSet(ctx, "limits/rate", []byte("60"), entry.Index)
	fmt.Println("at its index:", err)
	_, err = s.CompareAndSet(ctx, "limits/rate", []byte("70"), entry.Index)
	fmt.Println("a conflict at an older one:", errors.Is(err, configstore.ErrConflict))

	stop()
	fmt.Println("ended with", <-ended)
	// Output:
	// 50, <nil>
	// at its index: <nil>
	// a conflict at an older one: true
	// ended with <nil>
}
