//go:build unix

package guard

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/coordd/coordd/internal/output"
)

// outputLimit is how long the end of the guard process waits for what commands wrote to be copied.
// The owner waits for that end for stopSlack; outbox.close takes a second of it, too.
const outputLimit = time.Second

// Main is the guard process: the whole of the hidden command `coordd guard`. It returns the exit
// code: 0 when its owner has closed the control pipe, or died, and every command is gone; 2 when it
// was not started by coordd. What guards the commands never writes to standard output or error once
// it runs: their reader may have stalled.
//
// When its owner died it says the owner's goodbye before it ends, by way of say, which gets the
// words of Guard.Goodbye and returns when they are said, or when its context ends. It may write to
// standard error, but the guard's end does not wait for it longer than a second after its context
// has ended.
//
// It ignores SIGINT, SIGTERM and SIGHUP: it ends when its owner does.
func Main(say func(ctx context.Context, words []byte)) int {
	var st syscall.Stat_t
	if err := syscall.Fstat(socketFD, &st); err != nil ||
		st.Mode&syscall.S_IFMT != syscall.S_IFSOCK {
		fmt.Fprintln(os.Stderr,
			"coordd guard: not for use by hand: coordd run starts it, with the pipes it needs")
		return 2
	}
	for _, fd := range []int{socketFD, lockFD} {
		syscall.CloseOnExec(fd) // commands must not inherit it
	}
	// Notify and not Ignore: what is ignored stays ignored in the commands.
	deaf := make(chan os.Signal, 1)
	signal.Notify(deaf, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	if err := serve(say); err != nil {
		fmt.Fprintf(os.Stderr, "coordd guard: %v; nothing is started\n", err)
		return 1
	}
	return 0
}

func serve(say func(context.Context, []byte)) error {
	if err := settle(); err != nil {
		return err
	}
	var s settings
	socket := os.NewFile(socketFD, "owner")
	starts := gob.NewDecoder(socket)
	if err := starts.Decode(&s); err != nil {
		return fmt.Errorf("read the settings: %w", err)
	}
	// A frozen owner reads nothing, and its commands have to be stopped all the same: the box grows by
	// three events a command at most, and a frozen owner sends none.
	events := newBox[event]()
	ended, told := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(told)
		events.send(gob.NewEncoder(socket), ended)
	}()
	r := newRunner(s.HideEnv, s.Starts, events.put)
	hello := event{Kind: evHello, PID: os.Getpid(), Starts: cap(r.work)}
	var err error
	if s.NoCgroups {
		err = errors.New("it is not wanted")
	} else {
		r.cgroups, err = newCgroups()
	}
	if err != nil {
		hello.NoCgroup = err.Error()
	} else {
		hello.Cgroup = string(r.cgroups)
	}
	if s.Output.To != output.Raw {
		r.output, err = output.New(s.Output, 1, 2, func(l output.Loss) {
			events.put(event{Kind: evOutputLost, Lines: l.Lines, Item: l.Item, Err: l.Err})
		})
		if err != nil {
			return err
		}
	}
	var lock *locker // nil: there is none
	if s.LockFile != "" {
		lock = &locker{path: s.LockFile, file: os.NewFile(lockFD, s.LockFile),
			cgroup: string(r.cgroups)}
		if err := lock.try(); err != nil {
			hello.Err = err.Error()
		}
		hello.Locked = lock.held.Load()
		go lock.keep(events.put)
	}
	events.put(hello)
	for range cap(r.work) {
		go r.starter()
	}
	r.loop(receive[control](gob.NewDecoder(os.Stdin)), receive[start](starts))
	if !r.died.IsZero() && say != nil {
		r.last.say(r.died, lock, say)
	}
	r.cgroups.close()
	if r.output != nil {
		if lock != nil {
			lock.file.Close() // nobody waits for output
		}
		r.output.Close(outputLimit)
	}
	close(ended)
	select { // the owner may be frozen, and all work is over
	case <-told:
	case <-time.After(time.Second):
	}
	return nil
}

// receive closes the channel when the owner has closed its end, died, or sent what cannot be read.
func receive[T any](dec *gob.Decoder) <-chan T {
	messages := make(chan T, 16) // a switch of threads saved for each that waits
	go func() {
		defer close(messages)
		for {
			var m T
			if dec.Decode(&m) != nil {
				return
			}
			messages <- m
		}
	}()
	return messages
}
