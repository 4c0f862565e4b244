// Command coordd keeps a list of work items running across a set of machines:
// every item on exactly one machine at a time. See `coordd --help`.
//
// Guarantees of the binary, beside those of package actors:
//
//  1. Exit code 0 means a clean stop, 1 a failure, 2 bad usage; a failure is one line on
//     standard error. Bad usage writes nothing anywhere.
//  2. SIGINT or SIGTERM stops cleanly; a second one at once.
//  3. Every flag can be given as an environment variable; the flag wins.
//  4. No command started by `run --exec` outlives its coordd or its lease, as far as
//     package guard can hold that; the items of a coordd that was killed are handed over.
//  5. The HTTP side writes nothing but the configuration (below /config/, with --backend consul), and
//     reads Consul at most once a second, only when someone looks; the configuration comes from the cache.
//
// Not guaranteed: any protection of the HTTP side. It has no login; bind it to
// where only those reach it who may see ids and addresses, and with --backend consul those who may
// read and write the configuration. A page of another origin in a browser cannot write it.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() { os.Exit(start()) }

// start runs the command line with the process's own surroundings.
func start() int {
	if len(os.Args) == 2 && os.Args[1] == "guard" {
		return guardMain() // it takes no orders from signals
	}
	ctx, stop := signals()
	defer stop()
	return run(ctx, surroundings{
		args: os.Args[1:], env: os.LookupEnv,
		in: os.Stdin, out: os.Stdout, err: os.Stderr,
	})
}

// surroundings are what a command line sees of its process.
type surroundings struct {
	args     []string
	env      func(string) (string, bool)
	in       io.Reader
	out, err io.Writer
}

// sameSignal is how long after the first signal another one is still the same
// wish: timeout(1), and some service managers, signal a process and then its group.
const sameSignal = 50 * time.Millisecond

// signals returns a context that ends with the first SIGINT or SIGTERM. The
// second one ends the process: the guard then sees its owner gone, and stops the commands.
func signals() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	c := make(chan os.Signal, 2)
	signal.Notify(c, syscall.SIGINT, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		select {
		case <-c:
			cancel()
		case <-done:
			return
		}
		first := time.Now()
		for {
			select {
			case <-c:
			case <-done:
				return
			}
			if time.Since(first) > sameSignal {
				os.Stderr.WriteString("coordd: stopped at once, by the second signal\n")
				os.Exit(exitFailed)
			}
		}
	}()
	return ctx, func() {
		signal.Stop(c)
		close(done)
		cancel()
	}
}
