// Command coordd keeps a list of work items running across a set of machines:
// every item on exactly one machine at a time. See `coordd --help`.
//
// Guarantees of the binary, beside those of package actors:
//
//  1. Exit code 0 means a clean stop, 1 a failure, 2 bad usage; a failure is one line on
//     standard error. Bad usage writes nothing anywhere.
//  2. SIGINT, SIGTERM or SIGHUP (but for coordd elect, which passes SIGHUP on to its command, and
//     for a member with a settings file, which reloads it) stops cleanly; a second SIGINT or
//     SIGTERM at once, with SIGKILL for what commands there are. A SIGHUP or SIGINT that is ignored
//     when coordd starts, as under nohup and of a script's background job, stays ignored.
//  3. Every flag is an order, such as `elect --delete`, `drain --wait` or `items --member`, which
//     is given on the command line only, as --help and --version are; or it can be given as an
//     environment variable and, but for --config, in a settings file as well. The flag wins, and
//     the variable over the file.
//  4. No command started by `run --exec` outlives its coordd or its lease, as far as
//     package guard can hold that; the items of a coordd that was killed are handed over.
//  5. The HTTP side writes nothing but the configuration (below /config/, with --backend consul),
//     does nothing else but what the buttons of coordd dev do, on loopback only,
//     and reads Consul at most once a second, only when someone looks; the configuration comes from
//     the cache. However many clients there are, and however slow, the session keeps its
//     connections to Consul, and /healthz is answered.
//
// Not guaranteed: any protection of the HTTP side without --http-token-file or
// --http-client-ca-file, and of --route at all. Bind it to where only those reach it who may see
// ids and addresses, and with --backend consul those who may read and write the configuration. A
// page of another origin in a browser cannot, also when its name was rebound to the address.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coordd/coordd/internal/asynclog"
)

func main() { os.Exit(start()) }

// start runs the command line with the process's own surroundings.
func start() int {
	standardLog(os.Stderr)
	if len(os.Args) == 2 && os.Args[1] == "guard" {
		return guardMain() // it takes no orders from signals
	}
	if len(os.Args) > 2 && os.Args[1] == devMemberCommand {
		os.Args = append(os.Args[:1], os.Args[2:]...)
		endWithParent()
	}
	ctx, stop := signals()
	defer stop()
	code := run(ctx, surroundings{
		args: os.Args[1:], env: os.LookupEnv, environ: os.Environ(),
		in: os.Stdin, out: os.Stdout, err: os.Stderr,
	})
	if forced.Load() {
		select {} // it is ending already: what was waited for may have ended sooner
	}
	return code
}

var (
	// atOnce, if there is one, ends the commands, and is called at the second signal before the
	// process ends.
	atOnce atomic.Pointer[func()]
	forced atomic.Bool // the second signal has come
	// onHangup, if there is one, is called at SIGHUP, which then stops nothing.
	onHangup atomic.Pointer[func()]
)

// outliveReaders keeps the process alive when nobody has the other end of its standard output or
// error open any more: a write to it is an error from here on, and without this it would end the
// process, by SIGPIPE. It is for what guards others' work, and not for commands whose output is all
// there is to them. Notify and not Ignore: what is ignored stays ignored in the commands.
func outliveReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// surroundings are what a command line sees of its process.
type surroundings struct {
	args     []string
	env      func(string) (string, bool)
	environ  []string // all of env, as NAME=value
	in       io.Reader
	out, err io.Writer
}

// sameSignal is how long after the first signal another one is still the same
// wish: timeout(1), and some service managers, signal a process and then its group.
const sameSignal = 50 * time.Millisecond

// heeded are the signals among these that are not ignored: a shell ignores SIGINT for what it runs
// in the background of a script, and nohup ignores SIGHUP. Whoever listens to one ends that.
func heeded(all ...os.Signal) []os.Signal { return slices.DeleteFunc(all, signal.Ignored) }

// otherUse tells whether a signal is a SIGHUP that something has a use for, which has it then.
func otherUse(s os.Signal) bool {
	use := onHangup.Load()
	if s != syscall.SIGHUP || use == nil {
		return false
	}
	(*use)()
	return true
}

// signals returns a context that ends with the first SIGINT, SIGTERM, or SIGHUP that onHangup has
// no other use for. The second one ends the process, and its commands first. SIGHUP is no second
// one: a terminal that closes sends it more than once.
func signals() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	c := make(chan os.Signal, 2)
	signal.Notify(c, append(heeded(syscall.SIGINT, syscall.SIGHUP), syscall.SIGTERM)...)
	done := make(chan struct{})
	go func() {
		for begun := false; !begun; {
			select {
			case s := <-c:
				if !otherUse(s) {
					cancel()
					begun = true
				}
			case <-done:
				return
			}
		}
		first := time.Now()
		for {
			var s os.Signal
			select {
			case s = <-c:
			case <-done:
				return
			}
			if !otherUse(s) && s != syscall.SIGHUP && time.Since(first) > sameSignal {
				forced.Store(true)
				if kill := atOnce.Load(); kill != nil {
					(*kill)()
				}
				word := asynclog.NewWriter(os.Stderr)
				fmt.Fprintln(word, "coordd: stopped at once, by the second signal")
				word.Flush(flushLimit / 10)
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
