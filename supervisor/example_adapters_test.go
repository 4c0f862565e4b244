package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"

	"github.com/coordd/coordd/supervisor"
)

// A signal ends the whole tree, in order.
func ExampleSignals() {
	s, err := supervisor.New("host", supervisor.Tree{Children: []supervisor.Child{
		supervisor.Signals(os.Interrupt),
		{Name: "worker", Run: func(ctx context.Context) error {
			self, err := os.FindProcess(os.Getpid())
			if err != nil {
				return err
			}
			if err := self.Signal(os.Interrupt); err != nil { // someone presses Ctrl-C
				return err
			}
			<-ctx.Done()
			fmt.Println("the worker stops")
			return nil
		}},
	}}, supervisor.WithCause())
	if err != nil {
		fmt.Println(err)
		return
	}
	err = s.Run(context.Background())
	var sig *supervisor.SignalError
	fmt.Println("a signal:", errors.As(err, &sig) && sig.Signal == os.Interrupt)
	// Output:
	// the worker stops
	// a signal: true
}

// An http.Server finishes the requests that are under way when the tree stops.
func ExampleServe() {
	ctx, cancel := context.WithCancel(context.Background())
	address := make(chan string, 1)
	listen := func() (net.Listener, error) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err == nil {
			address <- ln.Addr().String()
		}
		return ln, err
	}
	server := func() supervisor.Server {
		return &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			cancel() // someone asks the host to stop meanwhile
			fmt.Fprint(w, "hello")
		})}
	}
	s, err := supervisor.New("host", supervisor.Tree{Children: []supervisor.Child{
		{Name: "http", Gate: true, Run: supervisor.Serve(listen, server)},
		{Name: "client", Run: func(ctx context.Context) error {
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			r, err := (&http.Client{Transport: transport}).Get("http://" + <-address)
			if err != nil {
				return err
			}
			defer r.Body.Close()
			text, err := io.ReadAll(r.Body)
			fmt.Println(string(text), err)
			return supervisor.ErrDoNotRestart
		}},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the host returned:", s.Run(ctx))
	// Output:
	// hello <nil>
	// the host returned: <nil>
}

// The actors of an oklog/run group: the first that returns ends all.
func ExampleActor() {
	actor := func(name string, execute func() error, interrupt func(error)) supervisor.Child {
		return supervisor.Child{
			Name:        name,
			Run:         supervisor.Actor(execute, interrupt),
			Restart:     supervisor.Temporary,
			Significant: true,
		}
	}
	stop := make(chan struct{})
	s, err := supervisor.New(
		"host",
		supervisor.Tree{AutoShutdown: supervisor.AnySignificant, Children: []supervisor.Child{
			actor(
				"ticker",
				func() error { <-stop; return nil },
				func(err error) { fmt.Println("interrupted:", err); close(stop) },
			),
			actor(
				"importer",
				func() error { return errors.New("the file is empty") },
				func(error) {},
			),
		}},
		supervisor.WithLogger(slog.New(slog.DiscardHandler)),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the host returned:", s.Run(context.Background()))
	// Output:
	// interrupted: supervisor: the tree ends by itself: host/importer has ended: host/importer: the file is empty
	// the host returned: host/importer: the file is empty
}

// Functions as those of an errgroup: the first that fails ends the others.
func ExampleTogether() {
	s, err := supervisor.New("jobs", supervisor.Together(
		func(context.Context) error { return nil },
		func(ctx context.Context) error { <-ctx.Done(); return nil },
		func(context.Context) error { panic("out of paper") },
	), supervisor.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Run(context.Background()))
	// Output:
	// supervisor jobs gave up: more than 0 restarts within 1m0s: jobs/2 (incarnation 1): panic: panic: out of paper
}
