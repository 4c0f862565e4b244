//go:build unix

package guard

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/coordd/coordd/internal/output"
)

// eventsFD is where the owner listens. Not standard output: that one belongs to the commands.
const eventsFD = 3

// noCgroupsEnv is Config.NoCgroups for the guard process.
const noCgroupsEnv = "COORDD_GUARD_NO_CGROUPS"

// Main is the guard process: the whole of the hidden command `coordd guard`. Standard input brings
// the owner's commands, file descriptor 3 takes the events; standard output and error are passed on
// to the commands, and what guards these never writes to them once it runs: whoever reads them may
// have stalled. With Config.Output goroutines of their own copy what the commands write. It returns
// the exit code: 0 when its owner has closed the pipe, or died, and every
// command is gone; 2 when it was not started by coordd.
//
// When its owner died it says the owner's goodbye before it ends, by way of say, which gets the
// words of Guard.Goodbye and returns when they are said, or when its context ends: see Goodbye
// for when that is. No say, no goodbye. It may write to standard error, but the guard's end does
// not wait for it longer than a second after its context has ended. It returns true when nobody
// will look for the owner's lock any more: else the lock file stays, for a successor to see that it
// is the same and free.
//
// It ignores SIGINT, SIGTERM and SIGHUP: it ends when its owner does.
func Main(say func(ctx context.Context, words []byte) (forgotten bool)) int {
	var st syscall.Stat_t
	if err := syscall.Fstat(eventsFD, &st); err != nil ||
		st.Mode&syscall.S_IFMT != syscall.S_IFIFO {
		fmt.Fprintln(os.Stderr,
			"coordd guard: not for use by hand: coordd run starts it, with the pipes it needs")
		return 2
	}
	// Commands must not inherit it: the owner learns of this process's death by its end.
	syscall.CloseOnExec(eventsFD)
	// For the runtime to wait on it without a thread; an error costs that thread.
	_ = syscall.SetNonblock(eventsFD, true)
	// Notify and not Ignore: what is ignored stays ignored in the commands.
	deaf := make(chan os.Signal, 1)
	signal.Notify(deaf, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	if err := settle(); err != nil {
		fmt.Fprintf(os.Stderr, "coordd guard: %v; nothing is started\n", err)
		return 1
	}
	// For life: see childAttr.
	runtime.LockOSThread()

	lock := newLocker()
	setLimit(lock.token)
	events := newOutbox(os.NewFile(eventsFD, "events"))
	cr := newCommandRunner(lock.token, events.put)
	hello := event{Kind: evHello, PID: os.Getpid(), Protocol: protocol, Token: cr.token}
	if groups, err := confine(lock.token); err != nil {
		hello.NoCgroup = err.Error()
	} else {
		cr.cgroups, hello.Cgroup = groups, groups.dir
	}
	if cfg := takeOutput(); cfg.To != output.Raw {
		copier, err := output.New(cfg, 1, 2, func(l output.Loss) {
			events.put(event{Kind: evOutputLost, Lines: l.Lines, Item: l.Item, Err: l.Err})
		})
		if err != nil {
			fmt.Fprintf(os.Stderr, "coordd guard: %v; nothing is started\n", err)
			return 1
		}
		cr.output = copier
	}
	if lock.path == "" {
		hello.Swept, _, _ = killMarked(&census{}, claimDead, nil, sweepLimit)
	} else {
		var err error
		if hello.Swept, err = lock.try(); err == nil {
			hello.Locked, hello.LockID = true, fileID(lock.file.Load())
		} else if !errors.Is(err, errLockHeld) {
			hello.Err = err.Error()
		}
		go lock.keep(hello.Locked, events.put)
	}
	events.put(hello)
	cr.loop(readCommands(os.Stdin))
	forgotten := cr.died.IsZero() || lock.own
	if !cr.died.IsZero() && lock.path != "" {
		if say != nil && cr.last.say(cr.died, lock, say) {
			forgotten = true
		}
		removePresence(lock.path)
	}
	if cr.cgroups != nil {
		cr.cgroups.close()
	}
	if forgotten {
		lock.tidy()
	}
	if cr.output != nil {
		lock.release() // nobody waits for output
		cr.output.Close(outputLimit)
	}
	events.close()
	return 0
}

// confine makes the cgroups for commands, unless it is not to.
func confine(token string) (*cgroups, error) {
	defer os.Unsetenv(noCgroupsEnv)
	if os.Getenv(noCgroupsEnv) != "" {
		return nil, errors.New("it is not wanted")
	}
	return newCgroups(token)
}

// readCommands closes the channel when the owner has closed its end, died, or sent what cannot be
// read.
func readCommands(in *os.File) <-chan command {
	cmds := make(chan command, 64) // a switch of threads saved for each that waits
	go func() {
		defer close(cmds)
		dec := gob.NewDecoder(in)
		for {
			var c command
			if dec.Decode(&c) != nil {
				return
			}
			cmds <- c
		}
	}()
	return cmds
}

// outbox writes events without ever holding up who puts them: a frozen owner reads nothing, and
// its commands have to be stopped all the same. It grows by three events a command at most, and a
// frozen owner sends none; and by four a minute while output is lost.
type outbox struct {
	mu     sync.Mutex
	queue  []event
	closed bool
	wake   chan struct{}
	done   chan struct{}
}

func newOutbox(f *os.File) *outbox {
	o := &outbox{wake: make(chan struct{}, 1), done: make(chan struct{})}
	go func() {
		defer close(o.done)
		enc := gob.NewEncoder(f)
		for {
			o.mu.Lock()
			batch, closed := o.queue, o.closed
			o.queue = nil
			o.mu.Unlock()
			for _, e := range batch {
				if enc.Encode(e) != nil {
					return // the owner is gone: nobody wants to know
				}
			}
			if len(batch) > 0 {
				continue
			}
			if closed {
				return
			}
			<-o.wake
		}
	}()
	return o
}

func (o *outbox) put(e event) {
	o.mu.Lock()
	o.queue = append(o.queue, e)
	o.mu.Unlock()
	o.poke()
}

// close waits for what is queued, but not long: the owner may be frozen, and all work is over.
func (o *outbox) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.poke()
	select {
	case <-o.done:
	case <-time.After(time.Second):
	}
}

func (o *outbox) poke() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}
