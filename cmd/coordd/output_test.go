package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit"
)

// unreadPipe takes nothing until it is closed, as a pipe that is full.
type unreadPipe struct {
	begun, closed chan struct{}
	once          sync.Once
}

func (p *unreadPipe) Write([]byte) (int, error) {
	p.once.Do(func() { close(p.begun) })
	<-p.closed
	return 0, io.ErrClosedPipe
}

func TestASignalEndsACommandWhoseOutputNobodyReads(t *testing.T) {
	out := &unreadPipe{begun: make(chan struct{}), closed: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	none := func(string) (string, bool) { return "", false }
	var text bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, surroundings{args: []string{"version"}, env: none,
			in: strings.NewReader(""), out: out, err: &text})
	}()
	<-out.begun
	cancel()
	select {
	case code := <-ended:
		if code != exitFailed || !strings.Contains(text.String(), errUnread.Error()) {
			t.Errorf("exit code %d: %s", code, text.String())
		}
		close(out.closed)
	case <-time.After(testkit.Patience):
		t.Errorf("it waits still, %v after the signal", testkit.Patience)
		close(out.closed)
		<-ended
	}
}

// What ends by a signal may have something to say of it.
func TestOutputAfterASignalIsTaken(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var taken bytes.Buffer
	o := &outlet{ctx: ctx, to: &taken}
	for _, piece := range []string{"a", "b"} {
		if n, err := io.WriteString(o, piece); n != 1 || err != nil {
			t.Errorf("%s: %d, %v", piece, n, err)
		}
	}
	if taken.String() != "ab" {
		t.Errorf("taken: %q", taken.String())
	}
}

func TestNothingIsWrittenBehindAWriteThatWasGivenUp(t *testing.T) {
	out := &unreadPipe{begun: make(chan struct{}), closed: make(chan struct{})}
	defer close(out.closed)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o := &outlet{ctx: ctx, to: out}
	for range 2 {
		if _, err := io.WriteString(o, "x"); !errors.Is(err, errUnread) {
			t.Errorf("nobody takes it: %v", err)
		}
	}
}

// noSpace is a full disk.
type noSpace struct{}

func (noSpace) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestWhatCannotBeWrittenIsAFailureAndNoBadUsage(t *testing.T) {
	for _, line := range []string{"version", "--version", "--help", "help work add", "status -h",
		"completion bash", "completion zsh", "completion fish", "completion powershell",
		"__complete st"} {
		var text bytes.Buffer
		if code := run(t.Context(), surroundings{args: strings.Fields(line),
			env: func(string) (string, bool) { return "", false }, in: strings.NewReader(""),
			out: noSpace{}, err: &text}); code != exitFailed ||
			!strings.Contains(text.String(), syscall.ENOSPC.Error()) {
			t.Errorf("coordd %s: exit code %d: %s", line, code, text.String())
		}
	}
}
