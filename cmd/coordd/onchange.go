package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
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

// payloadFile is where a command finds its item's payload as it is now, with --on-change signal. A
// coordd that is killed leaves it behind, until the item runs here again or the host starts anew.
func payloadFile(lock, item string) string {
	name := sha256.Sum256([]byte(item))
	return fmt.Sprintf("%s.payload-%x", lock, name[:8])
}

// execSignalled runs a command that gets SIGHUP when its item's payload has changed, and finds it
// in a file. If that cannot be written, the command is stopped: it is started again with the new
// payload, as after a failure. One that does not catch the signal is started again likewise, and
// has not failed.
func (c *commands) execSignalled(ctx context.Context, item actors.Item, spec guard.Spec) error {
	file := &writtenPayload{file: payloadFile(lockFile(c.o.service, c.o.id), item.ID)}
	if err := c.payloads.first(ctx, file, item); err != nil {
		return err
	}
	defer c.payloads.drop(file)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var unwritten error
	told := false // the command was sent the signal
	signals := make(chan os.Signal)
	spec.Env, spec.Signals = append(spec.Env, "COORDD_PAYLOAD_FILE="+file.file), signals
	var forwarder sync.WaitGroup
	forwarder.Go(func() {
		for {
			select {
			case payload := <-item.Changes:
				item.Payload = payload
				err := c.payloads.put(ctx, file, item)
				if ctx.Err() != nil {
					return
				}
				if err != nil {
					unwritten = err
					stop()
					return
				}
			case <-ctx.Done():
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
		return hungUp{e}
	}
	return err
}

// hungUp is the end of a command by the signal that was to tell it of its payload.
type hungUp struct{ *guard.ExitError }

// Interrupted has a member count it for no failure of the work.
func (hungUp) Interrupted() bool { return true }

// writePayload writes the file. Its directory may have been removed since, by whoever tidies up, or
// with the user's last login; and whoever else made it anew may not have it.
func writePayload(file string, item actors.Item) error {
	err := makeRuntimeDir()
	if err == nil {
		err = writeWhole(context.Background(), file, item.Payload)
	}
	if err != nil {
		return notWritten(item, err)
	}
	return nil
}

var errNotWritten = errors.New("the file for its payload")

func notWritten(item actors.Item, err error) error {
	return &guard.ExitError{Name: item.ID, Code: -1, Reason: guard.NotStarted,
		Err: fmt.Errorf("%w: %w", errNotWritten, err)}
}
