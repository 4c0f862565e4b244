//go:build unix

package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/guard"
	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/messages"
)

// leased is a connection of which nothing is known but its lease.
type leased struct {
	election.Connection
	contact *messages.State[election.Contact]
}

func (c leased) Contact() messages.Reader[election.Contact] { return c.contact.Reader() }
func (c leased) Close()                                     {}

// elected runs a command, which is told a file to write to, under a session. It returns the end of
// the guard as well.
func elected(t *testing.T, session, command string) (r *commandRunner, file string, end func()) {
	t.Helper()
	privateRuntimeDir(t)
	file = filepath.Join(t.TempDir(), "log")
	conn := leased{contact: messages.NewState(election.Contact{Session: session,
		Lease: facts.Lease{Start: time.Now(), TTL: time.Hour}})}
	r, err := newCommandRunner(electFlags{ttl: time.Hour, stopTimeout: time.Minute}, conn, "e",
		strings.ReplaceAll(command, "FILE", file), slog.New(slog.DiscardHandler))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	must(t, r.runGuard(ctx, &group))
	must(t, r.guard.AwaitUp(ctx))
	return r, file, func() {
		cancel()
		group.Wait()
	}
}

// lapsed is a context that has ended as soon as the file is there, and that nobody hears of before
// looking: as of a process that stood still while its command ended, and its lease.
type lapsed struct {
	context.Context
	file string
}

func (c lapsed) Err() error {
	if _, err := os.Stat(c.file); err == nil {
		return context.Canceled
	}
	return nil
}

// Its lease had run out, and it took its leadership again under the same token.
func TestEachStartOfAnElectedCommandHasATokenOfItsOwn(t *testing.T) {
	r, file, stop := elected(t, "s", "echo $COORDD_TOKEN >>FILE; exec sleep 1000")
	defer stop()
	want := ""
	for _, run := range []struct {
		token uint64
		want  string
	}{{7, "70001\n"}, {7, "70002\n"}, {8, "80001\n"}} {
		want += run.want
		duty, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- r.runCommand(duty, election.Status{Token: run.token, Session: "s"})
		}()
		testkit.Eventually(t, "a start with the tokens "+want, func() bool {
			b, _ := os.ReadFile(file)
			return string(b) == want
		})
		end()
		must(t, <-ended)
	}
}

// The process stood still just before it began its command: its session has expired, others may
// lead, and it has a new session already.
func TestACommandIsNotBegunUnderAnotherSessionThanItsLeaders(t *testing.T) {
	r, file, stop := elected(t, "new", "echo begun >>FILE")
	defer stop()
	if err := r.runCommand(t.Context(), election.Status{Token: 7, Session: "old"}); !errors.Is(err,
		errCommandStopped) {
		t.Errorf("it ended with %v, want %v", err, errCommandStopped)
	}
	if text, err := os.ReadFile(file); err == nil {
		t.Errorf("the log says %q", text)
	}
}

func TestACommandThatHasEndedIsNotBegunAgain(t *testing.T) {
	for command, want := range map[string]int{"true": 0, "exit 7": 7, "kill -KILL $$": 137} {
		r, file, stop := elected(t, "s", "echo begun >>FILE; "+command)
		if err := r.runCommand(lapsed{t.Context(), file}, election.Status{Token: 7,
			Session: "s"}); err != nil {
			t.Errorf("%s: %v", command, err)
		}
		if code, done := r.exited(); !done || code != want {
			t.Errorf("%s: it ended (%v) with %d, want %d", command, done, code, want)
		}
		if err := r.runCommand(t.Context(), election.Status{Token: 7, Session: "s"}); err != nil {
			t.Errorf("%s, again: %v", command, err)
		}
		if text, err := os.ReadFile(file); strings.Count(string(text), "begun") != 1 {
			t.Errorf("%s: the log says %q (%v), want one beginning", command, text, err)
		}
		stop()
	}
}

// Its Exec does not return, and its session is renewed: it would keep the leadership for good.
func TestACandidateWhoseGuardIsStuckGivesUp(t *testing.T) {
	privateRuntimeDir(t)
	conn := leased{contact: messages.NewState(election.Contact{})}
	r, err := newCommandRunner(electFlags{stopTimeout: time.Minute}, conn, "e", "true",
		slog.New(slog.DiscardHandler))
	must(t, err)
	r.run = func(context.Context) error { return guard.ErrStuck }
	gaveUp := make(chan error, 1)
	r.giveUp = func(err error) { gaveUp <- err }
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	var group sync.WaitGroup
	must(t, r.runGuard(ctx, &group))
	group.Wait()
	select {
	case err := <-gaveUp:
		if !errors.Is(err, guard.ErrStuck) {
			t.Errorf("for %v, want %v", err, guard.ErrStuck)
		}
	default:
		t.Error("it goes on")
	}
}

// A host that has nothing left to start a guard process with runs no command. Its candidate does
// not keep the leadership for that, but leaves it to others.
func TestALeaderWithoutAGuardProcessDoesNotWaitForOne(t *testing.T) {
	privateRuntimeDir(t)
	conn := leased{contact: messages.NewState(election.Contact{Session: "s",
		Lease: facts.Lease{Start: time.Now(), TTL: time.Hour}})}
	r, err := newCommandRunner(electFlags{ttl: time.Hour, stopTimeout: time.Minute}, conn, "e",
		"true", slog.New(slog.DiscardHandler))
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := r.runCommand(ctx, election.Status{Token: 7, Session: "s"}); !errors.Is(err,
		errCommandStopped) {
		t.Errorf("it ended with %v, want %v", err, errCommandStopped)
	}
}
