package asynclog_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/internal/asynclog"
)

// valve is a place to write to that can be shut, like a pipe that nobody reads.
type valve struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (v *valve) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.text.Write(p)
}

// shut makes everything block until the func is called.
func (v *valve) shut() (open func()) {
	locked, release := make(chan struct{}), make(chan struct{})
	go func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		close(locked)
		<-release
	}()
	<-locked
	return func() { close(release) }
}

func (v *valve) lines() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return strings.Split(strings.TrimSpace(v.text.String()), "\n")
}

func newBlocking(level slog.Level) (*valve, *slog.Logger) {
	v := &valve{}
	return v, slog.New(slog.NewTextHandler(v, &slog.HandlerOptions{Level: level,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "since" || a.Key == "why" {
				return slog.Attr{}
			}
			return a
		}}))
}

func TestLoggingNeverWaits(t *testing.T) {
	v, inner := newBlocking(slog.LevelInfo)
	log := asynclog.Wrap(inner)
	open := v.shut()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 5000 {
			log.With("a", 1).WithGroup("g").Info("hello", "i", i)
			log.Debug("hidden")
		}
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Error("the caller still waits for a log that nobody reads")
	}
	open()
	if !asynclog.Flush(log, 20*time.Second) {
		t.Fatal("not flushed")
	}
	<-done
}

func TestDropsAreCountedAndSaidAtTheirPlaceInTheOrder(t *testing.T) {
	v, inner := newBlocking(slog.LevelInfo)
	log := asynclog.Wrap(inner)
	open := v.shut()
	const all = 3000
	for i := range all {
		log.Info("hello", "i", i)
	}
	open()
	if !asynclog.Flush(log, 20*time.Second) {
		t.Fatal("not flushed")
	}
	log.Info("after")
	asynclog.Flush(log, 20*time.Second)
	lines := v.lines()
	for i := range len(lines) - 2 {
		if want := fmt.Sprintf("level=INFO msg=hello i=%d", i); lines[i] != want {
			t.Fatalf("line %d is %q, want %q", i, lines[i], want)
		}
	}
	written := len(lines) - 2
	if want := fmt.Sprintf("level=WARN msg=log-records-dropped count=%d",
		all-written); lines[written] != want {
		t.Errorf("after %d lines there is %q, want %q", written, lines[written], want)
	}
	if lines[written+1] != "level=INFO msg=after" {
		t.Errorf("the last line is %q", lines[written+1])
	}
	if written < 1000 || written > 1100 {
		t.Errorf("%d records were kept", written)
	}
}

func TestBytesAreCountedWhereverInARecordTheyAre(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	for name, log1 := range map[string]func(*slog.Logger){
		"text":   func(l *slog.Logger) { l.Info("large", "a", big) },
		"bytes":  func(l *slog.Logger) { l.Info("large", "a", []byte(big)) },
		"groups": func(l *slog.Logger) { l.Info("large", slog.Group("g", slog.Group("h", "a", big))) },
		"a list": func(l *slog.Logger) { l.Info("large", "a", []string{big[:1<<19], big[1<<19:]}) },
		"With":   func(l *slog.Logger) { l.With("a", big).WithGroup("g").Info("large") },
	} {
		v, inner := newBlocking(slog.LevelInfo)
		log := asynclog.Wrap(inner)
		open := v.shut()
		for range 20 {
			log1(log)
		}
		open()
		if !asynclog.Flush(log, 20*time.Second) {
			t.Fatal("not flushed")
		}
		if n := strings.Count(strings.Join(v.lines(), "\n"), "msg=large"); n > 6 {
			t.Errorf("%s: %d records of 1 MiB waited", name, n)
		}
	}
}

func TestFlushDoesNotWaitLongerThanItsLimitNorTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		log := asynclog.Wrap(slog.New(waits{release: release}))
		log.Info("one")
		begin := time.Now()
		if asynclog.Flush(log, time.Second) || time.Since(begin) != time.Second {
			t.Errorf("flushed after %v", time.Since(begin))
		}
		if asynclog.Flush(log, time.Second) || time.Since(begin) != time.Second {
			t.Errorf("the second flush ended after %v", time.Since(begin))
		}
		close(release)
		if synctest.Wait(); !asynclog.Flush(log, time.Second) || time.Since(begin) != time.Second {
			t.Error("not flushed although it was read again")
		}
	})
}

type waits struct {
	slog.Handler
	release chan struct{}
}

func (waits) Enabled(context.Context, slog.Level) bool { return true }
func (w waits) Handle(context.Context, slog.Record) error {
	<-w.release
	return nil
}

func TestAHandlerThatFailsLosesItsRecordAndNothingElse(t *testing.T) {
	v, inner := newBlocking(slog.LevelInfo)
	log := asynclog.Wrap(slog.New(fails{inner.Handler()}))
	for _, msg := range []string{"one", "panic", "two", "exit", "three"} {
		log.Info(msg)
	}
	asynclog.Flush(log, 20*time.Second)
	got := strings.Join(v.lines(), "\n")
	for _, want := range []string{"msg=one", "msg=two", "msg=three",
		"msg=log-records-dropped count="} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
}

type fails struct{ slog.Handler }

func (f fails) Handle(ctx context.Context, r slog.Record) error {
	switch r.Message {
	case "panic":
		panic("in the handler")
	case "exit":
		runtime.Goexit()
	}
	return f.Handler.Handle(ctx, r)
}

func TestWhatWasWrappedStaysInItsQueue(t *testing.T) {
	_, inner := newBlocking(slog.LevelInfo)
	log := asynclog.Wrap(inner)
	if again := asynclog.Wrap(log.With("a", 1)); again.Handler() == nil ||
		fmt.Sprintf("%T", again.Handler()) != fmt.Sprintf("%T", log.Handler()) {
		t.Error("wrapped twice")
	}
	derived := log.With("member", "n1")
	if asynclog.Wrap(derived) != derived {
		t.Error("a logger derived of a wrapped one was wrapped again")
	}
}

func TestLinesAndRecordsOfOneWriterKeepTheirOrder(t *testing.T) {
	v := &valve{}
	w := asynclog.NewWriter(v)
	log := slog.New(w.Handler(func(to io.Writer) slog.Handler {
		return slog.NewTextHandler(to, nil)
	}))
	open := v.shut()
	for i := range 10 {
		log.Info("record", "i", i)
		fmt.Fprintf(w, "line %d\n", i)
	}
	open()
	if !w.Flush(20 * time.Second) {
		t.Fatal("not flushed")
	}
	lines := v.lines()
	for i := range 10 {
		if !strings.HasSuffix(lines[2*i], fmt.Sprintf("i=%d", i)) ||
			lines[2*i+1] != fmt.Sprintf("line %d", i) {
			t.Fatalf("out of order: %q", lines)
		}
	}
}
