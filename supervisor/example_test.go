package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/coordd/coordd/supervisor"
)

// Actors start in order and are stopped in reverse, each when the one after it
// has ended.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	actor := func(name string) supervisor.Child {
		return supervisor.Child{Name: name, Gate: true, Run: func(ctx context.Context) error {
			fmt.Println(name, "started")
			supervisor.Ready(ctx)
			if name == "server" {
				cancel() // someone has asked the host to stop
			}
			<-ctx.Done()
			fmt.Println(name, "stopped")
			return nil
		}}
	}

	s, err := supervisor.New("host", supervisor.Tree{Children: []supervisor.Child{
		actor("database"),
		actor("cache"),
		actor("server"),
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the host returned:", s.Run(ctx))
	// Output:
	// database started
	// cache started
	// server started
	// server stopped
	// cache stopped
	// database stopped
	// the host returned: <nil>
}

// A listener takes the place of oklog/run's interrupt function by closing when
// the context ends.
func Example_listener() {
	ctx, cancel := context.WithCancel(context.Background())
	s, err := supervisor.New("host", supervisor.Tree{Children: []supervisor.Child{
		{Name: "http", Run: func(ctx context.Context) error {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err // tried again after a backoff
			}
			defer context.AfterFunc(ctx, func() { ln.Close() })()
			fmt.Println("serving")
			cancel()
			return http.Serve(ln, nil) // its context is done: this is not a failure
		}},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the host returned:", s.Run(ctx))
	// Output:
	// serving
	// the host returned: <nil>
}

// A child that keeps failing is restarted, until that happens too often; then
// the host gets an error that holds every cause.
func Example_escalation() {
	attempt := 0
	s, err := supervisor.New("host", supervisor.Tree{
		MaxRestarts: 2,
		Period:      time.Minute,
		Children: []supervisor.Child{{
			Name:    "poller",
			Backoff: supervisor.Constant(time.Millisecond),
			Run: func(context.Context) error {
				attempt++
				return fmt.Errorf("attempt %d: %w", attempt, errors.ErrUnsupported)
			},
		}},
	}, supervisor.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		fmt.Println(err)
		return
	}
	err = s.Run(context.Background())

	var esc *supervisor.EscalationError
	if errors.As(err, &esc) {
		fmt.Println(esc.Path, "gave up:", esc.Reason)
		for _, c := range esc.History() {
			fmt.Println(c)
		}
	}
	fmt.Println("unsupported:", errors.Is(err, errors.ErrUnsupported))
	// Output:
	// host gave up: more than 2 restarts within 1m0s
	// host/poller (incarnation 1): error: attempt 1: unsupported operation
	// host/poller (incarnation 2): error: attempt 2: unsupported operation
	// host/poller (incarnation 3): error: attempt 3: unsupported operation
	// unsupported: true
}

// A manager runs a child for each job that it is given.
func ExampleGroup() {
	ctx, cancel := context.WithCancel(context.Background())
	s, err := supervisor.New("host", supervisor.Tree{Children: []supervisor.Child{
		{Name: "manager", Run: func(ctx context.Context) error {
			h, err := supervisor.Of(ctx).Start(supervisor.Child{Name: "job-1",
				Restart: supervisor.Transient, Run: func(ctx context.Context) error {
					fmt.Println("working as", supervisor.Path(ctx))
					return nil
				}})
			if err != nil {
				return err
			}
			<-h.Done()
			fmt.Println(h.Name(), "is done")
			cancel()
			<-ctx.Done()
			return nil
		}},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the host returned:", s.Run(ctx))
	// Output:
	// working as host/job-1
	// job-1 is done
	// the host returned: <nil>
}
