package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/guard"
)

// onChange is the value of --on-change.
type onChange actors.OnChange

var onChangeNames = map[actors.OnChange]string{actors.KeepOnChange: "keep",
	actors.RestartOnChange: "restart", actors.SendOnChange: "signal"}

func (c *onChange) String() string { return onChangeNames[actors.OnChange(*c)] }

func (c *onChange) Type() string { return "keep" }

func (c *onChange) Set(text string) error {
	for value, name := range onChangeNames {
		if name == text {
			*c = onChange(value)
			return nil
		}
	}
	return errors.New("give keep, restart or signal")
}

// payloadFiles is where the commands of one member find their payloads, with --on-change signal.
func payloadFiles(lock string) string { return lock + ".payload-" }

// removePayloads removes the files that a killed predecessor of this member has left behind.
func removePayloads(lock string) {
	left, _ := filepath.Glob(payloadFiles(lock) + "*")
	for _, file := range left {
		_ = os.Remove(file)
	}
}

// writePayload makes a payload the contents of a file: all of it, or the file stays as it was.
func writePayload(file string, item actors.Item) error {
	err := makeRuntimeDir() // it goes with the user's last login
	if err == nil {
		err = os.WriteFile(file+".new", item.Payload, 0o600)
	}
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		return &guard.ExitError{Name: item.ID, Code: -1, Reason: guard.NotStarted,
			Err: fmt.Errorf("the file for its payload: %w", err)}
	}
	return nil
}

// execSignalled runs a command that gets SIGHUP when its item's payload has changed, and finds the
// payload in a file. If the file cannot be written, the command is stopped: it is started again
// with the new payload, as after a failure. A command that does not catch the signal is started
// again as well, and has not failed.
func (c *commands) execSignalled(ctx context.Context, item actors.Item, spec guard.Spec) error {
	// A process that stood still for its lease may find another one with its id at work: each has
	// files of its own.
	name := sha256.Sum256([]byte(item.ID))
	file := fmt.Sprintf("%s%d-%x", payloadFiles(lockFile(c.o.service, c.o.id)), os.Getpid(), name[:8])
	if err := writePayload(file, item); err != nil {
		return err
	}
	defer os.Remove(file)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var unwritten error
	told := false // the command was sent the signal
	signals := make(chan os.Signal)
	spec.Env, spec.Signals = append(spec.Env, "COORDD_PAYLOAD_FILE="+file), signals
	var forwarder sync.WaitGroup
	forwarder.Go(func() {
		for {
			select {
			case item.Payload = <-item.Changes:
			case <-ctx.Done():
				return
			}
			if unwritten = writePayload(file, item); unwritten != nil {
				stop()
				return
			}
			select {
			case signals <- syscall.SIGHUP:
				told = true
			case <-ctx.Done():
				return
			}
		}
	})
	err := c.guard.Exec(ctx, spec)
	stop()
	forwarder.Wait()
	if unwritten != nil {
		return unwritten
	}
	if e, ok := errors.AsType[*guard.ExitError](err); ok && told && e.Signal == syscall.SIGHUP {
		return actors.Interrupted(e) // by the signal that was to tell it of its payload
	}
	return err
}
