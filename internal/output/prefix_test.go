//go:build linux

package output

import (
	"bufio"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit"
)

func TestEachLineBeginsWithItemAndStream(t *testing.T) {
	f := start(t, Config{To: Prefix}, nil, nil)
	f.run("w1", "one\n\ntwo, without an end", "three\r\n")
	f.copied()
	f.run("w\u202e2", "\x1b[2Jfour\xff\x00\n", "")
	f.copied()
	if got, want := contents(t, f.stdout.Name()), "w1 out | one\nw1 out | \n"+
		"w1 out | two, without an end\nw\\u202e2 out | \x1b[2Jfour\xff\x00\n"; got != want {
		t.Errorf("standard output:\n%q, want\n%q", got, want)
	}
	if got := contents(t, f.stderr.Name()); got != "w1 err | three\r\n" {
		t.Errorf("standard error: %q", got)
	}
}

func TestOnATerminalPrefixesAreAlignedAndColoured(t *testing.T) {
	f := start(t, Config{To: Prefix, Terminal: [2]bool{true, false}}, nil, nil)
	for _, id := range []string{"w1", "widget-ö", "w2"} {
		f.run(id, "a\n", "b\n")
		f.copied()
	}
	if got := contents(t, f.stderr.Name()); got != "w1 err | b\nwidget-ö err | b\nw2 err | b\n" {
		t.Errorf("not a terminal: %q", got)
	}
	var plain []string
	for line := range strings.Lines(contents(t, f.stdout.Name())) {
		before, after, ok := strings.Cut(line, "\x1b[0m")
		colour, id, ok2 := strings.Cut(before, "m")
		if !ok || !ok2 || !strings.HasPrefix(colour, "\x1b[3") {
			t.Fatalf("%q has no colour", line)
		}
		plain = append(plain, id+after)
	}
	want := "w1 out | a\nwidget-ö out | a\nw2       out | a\n"
	if got := strings.Join(plain, ""); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// full is a pipe that takes no more until it is drained.
func full(t *testing.T) (w *os.File, drain func()) {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() { r.Close(); w.Close() })
	must(t, w.SetWriteDeadline(time.Now().Add(time.Millisecond)))
	for { // it ends with the deadline
		if _, err := w.Write(make([]byte, 4096)); err != nil {
			break
		}
	}
	must(t, w.SetWriteDeadline(time.Time{}))
	return w, func() { go func() { _, _ = io.Copy(io.Discard, r) }() }
}

func TestNobodyWaitsForABlockedStandardOutput(t *testing.T) {
	w, drain := full(t)
	f := start(t, Config{To: Prefix}, w, nil)
	for range maxLingering + 20 {
		f.run("w1", "one\ntwo\nthree", "")
	}
	f.mu.Lock()
	lingering := len(f.lingering)
	f.mu.Unlock()
	if lingering > maxLingering {
		t.Errorf("%d have ended and are still waited for", lingering)
	}
	// Standard error is not blocked.
	testkit.Eventually(t, "a report of lost lines", func() bool { return len(f.losses()) > 0 })
	if l := f.losses()[0]; l.Lines%3 != 0 || l.Err != errNotTaken.Error() {
		t.Errorf("got %+v", l)
	}
	f.Close(time.Millisecond)
	// One is in its write, the others gave up.
	if n := f.lostLines(); n != 3*(maxLingering+19) {
		t.Errorf("%d lines are counted as lost", n)
	}
	drain()
	f.copied()
}

func TestACommandIsHeldUpByItsReader(t *testing.T) {
	w, drain := full(t)
	f := start(t, Config{To: Prefix}, w, nil)
	r := f.begin("w1")
	written := make(chan struct{})
	go func() {
		defer close(written)
		r.say(t, 1, strings.Repeat("a line\n", 100_000))
	}()
	// It comes as far as the pipe, and what is on its way, goes.
	r.fills(t)
	select {
	case <-written:
		t.Error("all was taken although nobody reads")
	default:
	}
	drain()
	<-written
	r.Ended()
	f.copied()
	if n := f.lostLines(); n != 0 {
		t.Errorf("%d lines are lost", n)
	}
}

func TestAnEndOfReadersEndsNoCommand(t *testing.T) {
	r, w, err := os.Pipe()
	must(t, err)
	defer w.Close()
	r.Close()
	f := start(t, Config{To: Prefix}, w, nil)
	run := f.begin("w1")
	for range 100 {
		run.say(t, 1, strings.Repeat("a line\n", 1000)) // it would fail, or block
	}
	run.Ended()
	f.copied()
	f.Close(testkit.Patience)
	// and the last word about them, which is nobody's line
	if n := f.lostLines(); n != 100_000 {
		t.Errorf("%d lines are counted as lost", n)
	}
	if l := f.losses()[0]; !strings.Contains(l.Err, "broken pipe") {
		t.Errorf("got %+v", l)
	}
}

func TestAFullDiskIsNamed(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	must(t, err)
	defer full.Close()
	f := start(t, Config{To: Prefix}, full, nil)
	f.run("w1", "one\ntwo\n", "three\n")
	f.copied()
	if l := f.losses(); len(l) != 1 || l[0].Lines != 2 || !strings.Contains(l[0].Err, "no space") {
		t.Errorf("got %+v", l)
	}
	if got := contents(t, f.stderr.Name()); got != "w1 err | three\n" {
		t.Errorf("standard error: %q", got)
	}
}

func TestWhatADaemonHoldsOpenIsCopiedAndLeft(t *testing.T) {
	f := start(t, Config{To: Prefix}, nil, nil)
	r := f.begin("w1")
	daemon := r.mine[1]
	r.mine[1] = nil // it stays open
	text := strings.Repeat("before the end\n", 4000)
	if _, err := daemon.WriteString(text); err != nil {
		t.Fatal(err)
	}
	r.Ended()
	f.copied()
	if n := strings.Count(contents(t, f.stdout.Name()), "w1 out | before the end\n"); n != 4000 {
		t.Errorf("%d of 4000 lines arrived", n)
	}
	if _, err := daemon.WriteString("later\n"); err == nil {
		t.Error("somebody still reads what it writes")
	}
	daemon.Close()
}

func TestLinesAreWholeInAPipeThatOthersWriteTo(t *testing.T) {
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	f := start(t, Config{To: Prefix}, w, w)
	if f.sinks[1].(*prefixed).turns != f.sinks[2].(*prefixed).turns {
		t.Error("two streams that lead to one pipe do not take turns")
	}
	run, line := f.begin("w1"), strings.Repeat("x", 900)
	other := make(chan struct{})
	go func() { // coordd's own log
		defer close(other)
		for range 1000 {
			_, _ = w.WriteString("level=INFO\n")
		}
	}()
	go func() {
		run.say(t, 1, strings.Repeat(line+"\n", 1000))
		run.Ended()
		f.streams.Wait()
		<-other
		w.Close()
	}()
	// A reader of a pipe that gets less than a whole line has the rest of it next.
	whole := 0
	for lines := bufio.NewScanner(r); lines.Scan(); {
		if lines.Text() == "w1 out | "+line {
			whole++
		}
	}
	if whole != 1000 {
		t.Errorf("%d of 1000 lines arrived whole", whole)
	}
}
