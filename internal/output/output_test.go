//go:build unix

package output

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/coordd/coordd/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var must = testkit.Must

// fixture is a Copier whose standard output and error are files.
type fixture struct {
	*Copier
	t        *testing.T
	out, err *os.File

	mu   sync.Mutex
	lost []Loss
}

func start(t *testing.T, cfg Config, out, err *os.File) *fixture {
	t.Helper()
	f := &fixture{t: t, out: out, err: err}
	for _, file := range []**os.File{&f.out, &f.err} {
		if *file == nil {
			own, err := os.CreateTemp(t.TempDir(), "")
			must(t, err)
			t.Cleanup(func() { own.Close() })
			*file = own
		}
	}
	c, bad := New(cfg, int(f.out.Fd()), int(f.err.Fd()), func(l Loss) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.lost = append(f.lost, l)
	})
	must(t, bad)
	f.Copier = c
	t.Cleanup(func() { c.Close(testkit.Patience) })
	return f
}

func (f *fixture) begin(item string) *Run {
	f.t.Helper()
	r, err := f.Begin(item)
	must(f.t, err)
	return r
}

func (r *Run) say(t *testing.T, stream int, text string) {
	t.Helper()
	_, err := r.mine[stream].WriteString(text)
	must(t, err)
}

func (f *fixture) losses() (lines int, last Loss) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, last = range f.lost {
		lines += last.Lines
	}
	return lines, last
}

func contents(t *testing.T, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	must(t, err)
	return string(b)
}

func TestLinesAreWrittenWholeWithTheirItemAndTheirStream(t *testing.T) {
	long := strings.Repeat("x", MaxLine+5000)
	for said, want := range map[string]string{
		"one\ntwo\n":      "w out | one\nw out | two\n",
		"no end":          "w out | no end\n",
		"a\x00b\xff\n\n":  "w out | a\x00b\xff\nw out | \n",
		"a\r\nb":          "w out | a\r\nw out | b\n",
		"":                "",
		long + "\nthen\n": "",
	} {
		f := start(t, Config{To: Prefix}, nil, nil)
		r := f.begin("w")
		r.say(t, 1, said)
		r.say(t, 2, "oops\n")
		r.Ended()
		f.Close(testkit.Patience)
		got := contents(t, f.out.Name())
		if len(said) > MaxLine { // in pieces
			if strings.Count(got, "x") != len(long) || !strings.HasSuffix(got, "\nw out | then\n") {
				t.Errorf("of a long line %d bytes came", strings.Count(got, "x"))
			}
		} else if got != want {
			t.Errorf("of %q: %q, want %q", said, got, want)
		}
		if got := contents(t, f.err.Name()); got != "w err | oops\n" {
			t.Errorf("standard error: %q", got)
		}
	}
}

func TestLinesOfManyCommandsDoNotMix(t *testing.T) {
	r, w, err := os.Pipe() // for both streams
	must(t, err)
	defer w.Close()
	f := start(t, Config{To: Prefix}, w, w)
	const commands, lines = 10, 200
	var all sync.WaitGroup
	for n := range commands {
		run := f.begin(fmt.Sprint("w", n))
		all.Go(func() {
			for i := range lines {
				_, _ = fmt.Fprintf(run.mine[i%2+1], "%s\n", strings.Repeat(fmt.Sprint(n), 300))
			}
			run.Ended()
		})
	}
	go func() { all.Wait(); f.Close(testkit.Patience); w.Close() }()
	var text strings.Builder
	buf := make([]byte, 1000)
	for n := 0; err == nil; n, err = r.Read(buf) {
		text.Write(buf[:n])
	}
	count := 0
	for line := range strings.Lines(text.String()) {
		var n, k int
		var stream string
		if _, err := fmt.Sscanf(line, "w%d %s | ", &n, &stream); err != nil ||
			strings.TrimSpace(line[strings.Index(line, "|")+1:]) != strings.Repeat(fmt.Sprint(n), 300) {
			t.Fatalf("line %d: %q (%v, %d)", count, line, err, k)
		}
		count++
	}
	if count != commands*lines {
		t.Errorf("%d lines came, want %d", count, commands*lines)
	}
}

func TestAFileForEachItemHasItsBytesAsTheyAre(t *testing.T) {
	dir, err := CheckDir(filepath.Join(t.TempDir(), "logs"))
	must(t, err)
	f := start(t, Config{To: File, Dir: dir}, nil, nil)
	long := strings.Repeat("x", 3*MaxLine)
	r := f.begin("a b/../c")
	r.say(t, 1, "one\n")
	testkit.Eventually(t, "the first line", func() bool {
		b, _ := os.ReadFile(filepath.Join(dir, "a%20b%2F..%2Fc.log"))
		return string(b) == "one\n"
	})
	must(t, os.Rename(filepath.Join(dir, "a%20b%2F..%2Fc.log"), filepath.Join(dir, "rotated")))
	r.say(t, 2, long+"\nlast")
	r.Ended()
	f.Close(testkit.Patience)
	if got := contents(t, dir, "a%20b%2F..%2Fc.log"); got != long+"\nlast\n" {
		t.Errorf("%d bytes, want the long line and the last", len(got))
	}
	if got := contents(t, dir, "rotated"); got != "one\n" {
		t.Errorf("the renamed file: %q", got)
	}
	info, err := os.Stat(filepath.Join(dir, "a%20b%2F..%2Fc.log"))
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("others may look: %v", info.Mode())
	}
}

func TestEachItemHasAFileNameOfItsOwn(t *testing.T) {
	long := strings.Repeat("é", 200)
	seen := map[string]string{}
	for _, item := range []string{"a", "A", ".a", "..", "a/b", "a%2Fb", "a b", "-", long, long + "x",
		strings.Repeat("y", 251), strings.Repeat("y", 252)} {
		name := fileName(item)
		if len(name) > maxName || strings.ContainsAny(name, "/ \x00") || name[0] == '.' ||
			seen[name] != "" {
			t.Errorf("%q is %q, as %q", item, name, seen[name])
		}
		seen[name] = item
	}
}

func TestWhatAnotherHolderOfThePipeWritesLaterIsNotCopied(t *testing.T) {
	f := start(t, Config{To: Prefix}, nil, nil)
	r := f.begin("w")
	fd, err := syscall.Dup(int(r.mine[1].Fd()))
	must(t, err)
	held := os.NewFile(uintptr(fd), "held")
	defer held.Close()
	text := strings.Repeat("before\n", 1000)
	r.say(t, 1, text)
	r.Ended()
	f.Close(testkit.Patience) // returns though it is held
	if got := strings.Count(contents(t, f.out.Name()), "before"); got != 1000 {
		t.Errorf("%d lines, want 1000", got)
	}
	if _, err := held.WriteString("later\n"); err == nil {
		t.Error("somebody reads the pipe")
	}
}

func TestWhatCannotBeWrittenIsCountedAndTold(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	must(t, err)
	defer full.Close()
	closed, w, err := os.Pipe()
	must(t, err)
	closed.Close()
	defer w.Close()
	for why, to := range map[string]*os.File{"no space left": full, "broken pipe": w} {
		f := start(t, Config{To: Prefix}, to, to)
		r := f.begin("w")
		r.say(t, 1, "one\ntwo\n")
		r.say(t, 2, "three")
		r.Ended()
		f.Close(testkit.Patience)
		if n, last := f.losses(); n != 3 || last.Item != "w" || !strings.Contains(last.Err, why) {
			t.Errorf("%d lines are lost, the last %+v; want 3, %s", n, last, why)
		}
	}
	dir, err := CheckDir(filepath.Join(t.TempDir(), "logs"))
	must(t, err)
	f := start(t, Config{To: File, Dir: dir}, nil, nil)
	must(t, os.Mkdir(filepath.Join(dir, "w.log"), 0o700))
	r := f.begin("w")
	r.say(t, 1, "one\n")
	r.Ended()
	f.Close(testkit.Patience)
	if n, last := f.losses(); n != 1 || !strings.Contains(last.Err, "w.log") {
		t.Errorf("%d lines are lost, the last %+v; want 1", n, last)
	}
}

// The command waits in its own write, and its end waits for nobody.
func TestABlockedOutputHoldsUpTheCommandAndNotItsEnd(t *testing.T) {
	blocked, w, err := os.Pipe()
	must(t, err)
	defer w.Close()
	f := start(t, Config{To: Prefix}, w, w)
	flood, quiet := f.begin("flood"), f.begin("quiet")
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		_, _ = flood.mine[1].WriteString(strings.Repeat("a line\n", 100_000))
	}()
	testkit.Eventually(t, "a full pipe", func() bool {
		return len(f.sinks[1].all()) == 1
	})
	select {
	case <-wrote:
		t.Error("all of it was taken")
	case <-time.After(50 * time.Millisecond):
	}
	quiet.say(t, 2, "one\n")
	quiet.Ended()
	flood.from[1].Close() // as its process's end
	<-wrote
	flood.Ended()
	f.Copier.Close(time.Millisecond)
	if n, last := f.losses(); n == 0 || last.Err != errNotTaken.Error() {
		t.Errorf("%d lines are lost: %+v", n, last)
	}
	blocked.Close() // lets the write in the kernel go
	f.streams.Wait()
}

func TestTheRestOfAnEndedCommandIsNotWaitedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lost []Loss
		c := &Copier{losses: losses{report: func(l Loss) { lost = append(lost, l) }},
			over: make(chan struct{})}
		blocked := &prefixed{turns: make(turns)} // nobody gives a turn
		s := &stream{item: "w", number: 1, sink: blocked, copier: c, ended: make(chan struct{})}
		r := &Run{ended: make(chan struct{})}
		s.ended = r.ended
		done := make(chan struct{})
		go func() { defer close(done); s.take([]byte("one\ntwo\n")) }()
		begin := time.Now()
		time.AfterFunc(lingers, func() { close(r.ended) })
		<-done
		if took := time.Since(begin); took != lingers || len(lost) != 1 || lost[0].Lines != 2 {
			t.Errorf("after %v: %+v", took, lost)
		}
		c.losses.close()
	})
}

func TestLossesAreToldAtOnceAndThenOnceAPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []int
		l := losses{report: func(l Loss) { said = append(said, l.Lines) }}
		for range 5 {
			l.add("w", 1, errNotTaken)
		}
		time.Sleep(lossPeriod + time.Second)
		l.add("w", 2, errNotTaken)
		time.Sleep(3 * lossPeriod)
		l.add("w", 3, errNotTaken)
		l.add("w", 4, errNotTaken)
		l.close()
		if fmt.Sprint(said) != "[1 4 2 3 4]" {
			t.Errorf("said %v", said)
		}
	})
}

func TestASettingThatCannotBeIsRefused(t *testing.T) {
	for _, c := range []Config{{To: "lines"}, {To: File}, {To: File, Dir: "logs"}} {
		if err := c.Validate(); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
	if _, err := New(Config{}, 1, 2, nil); err == nil {
		t.Error("raw output is copied")
	}
	must(t, Config{To: File, Dir: "/logs"}.Validate())
}
