// Command coordd keeps a list of work items running across a set of machines:
// every item on exactly one machine at a time. See `coordd --help`.
//
// Guarantees of the binary, beside those of package actors:
//
//  1. Exit code 0 means a clean stop, 1 a failure, 2 bad usage; a failure is one line on
//     standard error. Bad usage writes nothing anywhere.
//  2. SIGINT, SIGTERM or SIGHUP stops cleanly; a second SIGINT or SIGTERM stops at once, with
//     SIGKILL for the commands. coordd elect passes SIGHUP on to its command. A member with a
//     settings file reads it again at SIGHUP, and one with files of secrets is not stopped by it. A
//     SIGHUP or SIGINT that is ignored when coordd starts, as under nohup, stays ignored.
//  3. A flag that is a setting can be an environment variable and a line of a settings file as
//     well. The flag wins, and the variable wins over the file.
//  4. No command started by `run --exec` outlives its coordd or its lease, as far as package guard
//     can hold that; the items of a coordd that was killed are handed over.
//  5. The HTTP side writes the configuration only (below /config/, with --backend consul). The
//     buttons of coordd dev work on loopback only. The HTTP side reads Consul at most once a
//     second, and only when a client asks. However many clients there are, the session keeps its
//     connections to Consul, and /healthz is answered.
//
// Not guaranteed: any protection of the HTTP side without --http-token-file or
// --http-client-ca-file, and of --route at all. Bind them where only those reach them who may see
// ids and addresses, and with --backend consul read and write the configuration.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coordd/coordd/internal/asynclog"
	"github.com/coordd/coordd/internal/reread"
	"github.com/coordd/coordd/internal/words"
)

func init() { words.ByFlags() }

func main() { os.Exit(start()) }

// start runs the command line with the process's own surroundings.
func start() int {
	// Package net/http logs with its locks held: nothing may wait for standard error there.
	log.SetOutput(asynclog.NewWriter(os.Stderr))
	if len(os.Args) == 2 && os.Args[1] == "guard" {
		return guardMain() // it takes no orders from signals
	}
	if len(os.Args) > 2 && os.Args[1] == devMemberCommand {
		os.Args = append(os.Args[:1], os.Args[2:]...)
		endWithParent()
	}
	trimConsulVariables()
	ctx, stop := signals()
	defer stop()
	code := run(ctx, surroundings{
		args: os.Args[1:], env: os.LookupEnv, environ: os.Environ(),
		in: os.Stdin, out: os.Stdout, err: os.Stderr,
	})
	if forced.Load() {
		select {} // the second signal ends the process
	}
	return code
}

var (
	// atOnce ends the commands at the second signal, before the process ends; nil: there are none.
	atOnce atomic.Pointer[func()]
	forced atomic.Bool // the second signal has come
	// onHangup is called at SIGHUP, which then stops nothing; nil: SIGHUP stops.
	onHangup atomic.Pointer[func()]
	// works: this process has work to stop, and takes its time after the first signal.
	works atomic.Bool
)

// beginWork says that this process has work to stop from here on. It outlives the readers of its
// standard output and error: SIGPIPE would end it. Commands must not inherit an ignored SIGPIPE, so
// it is caught.
func beginWork() {
	works.Store(true)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}

// surroundings are what a command line sees of its process.
type surroundings struct {
	args     []string
	env      func(string) (string, bool)
	environ  []string // all of env, as NAME=value
	in       io.Reader
	out, err io.Writer
}

// sameSignal is how long after the first signal a second one counts as the first: timeout(1) and
// some service managers signal a process and then its group.
const sameSignal = 50 * time.Millisecond

// hangup tells whether a signal is a SIGHUP that stops nothing: onHangup takes it, or this process
// works with files of secrets. Who renews such a file may send it then.
func hangup(s os.Signal) bool {
	if s != syscall.SIGHUP {
		return false
	}
	if use := onHangup.Load(); use != nil {
		(*use)()
		return true
	}
	return works.Load() && reread.Some()
}

// signals returns a context that ends with the first SIGINT, SIGTERM, or SIGHUP that onHangup does
// not take. The second one ends the process, and its commands first. A process without work ends a
// moment after the first one: it may wait for input, or for a reader of its output.
func signals() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	c, done := make(chan os.Signal, 2), make(chan struct{})
	// A shell ignores SIGINT for what it runs in the background, and nohup ignores SIGHUP.
	listened := slices.DeleteFunc([]os.Signal{syscall.SIGINT, syscall.SIGHUP}, signal.Ignored)
	signal.Notify(c, append(listened, syscall.SIGTERM)...)
	go func() {
		var first time.Time
		for {
			select {
			case s := <-c:
				switch {
				case hangup(s):
				case first.IsZero():
					first = time.Now()
					cancel()
					if !works.Load() {
						time.AfterFunc(flushLimit, func() { exitAtOnce("a signal") })
					}
				// A terminal that closes sends SIGHUP more than once.
				case s != syscall.SIGHUP && time.Since(first) > sameSignal:
					forced.Store(true)
					if kill := atOnce.Load(); kill != nil {
						(*kill)()
					}
					exitAtOnce("the second signal")
				}
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(c)
		close(done)
		cancel()
	}
}

func exitAtOnce(by string) {
	word := asynclog.NewWriter(os.Stderr)
	fmt.Fprintf(word, "coordd: stopped at once, by %s\n", by)
	word.Flush(flushLimit / 10)
	os.Exit(exitFailed)
}
