//go:build unix

package output

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coordd/coordd/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a Copier whose standard output and error are files.
type fixture struct {
	*Copier
	t      *testing.T
	stdout *os.File
	stderr *os.File

	mu   sync.Mutex
	lost []Loss
}

// start gives it these files; nil: files of its own.
func start(t *testing.T, cfg Config, stdout, stderr *os.File) *fixture {
	t.Helper()
	f := &fixture{t: t, stdout: stdout, stderr: stderr}
	for _, file := range []**os.File{&f.stdout, &f.stderr} {
		if *file != nil {
			continue
		}
		own, err := os.CreateTemp(t.TempDir(), "")
		must(t, err)
		t.Cleanup(func() { own.Close() })
		*file = own
	}
	c, err := New(cfg, int(f.stdout.Fd()), int(f.stderr.Fd()), func(l Loss) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.lost = append(f.lost, l)
	})
	must(t, err)
	f.Copier = c
	t.Cleanup(func() { c.Close(testkit.Patience) })
	return f
}

func (f *fixture) begin(item string, env ...string) *Run {
	f.t.Helper()
	r, err := f.Begin(item, env)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

// run is a command that writes this, and ends.
func (f *fixture) run(item, stdout, stderr string, env ...string) {
	f.t.Helper()
	r := f.begin(item, env...)
	r.say(f.t, 1, stdout)
	r.say(f.t, 2, stderr)
	r.Ended()
}

func (r *Run) say(t *testing.T, stream int, text string) {
	t.Helper()
	if _, err := r.mine[stream].WriteString(text); err != nil {
		t.Error(err)
	}
}

// fills waits until the pipe of standard output takes no more.
func (r *Run) fills(t *testing.T) {
	t.Helper()
	raw, err := r.from[1].SyscallConn()
	must(t, err)
	testkit.Eventually(t, "a full pipe", func() bool {
		n := 0
		_ = raw.Control(func(fd uintptr) { n = pending(int(fd)) })
		return n > turnSize-pipeWhole
	})
}

// copied waits until nothing is left to copy.
func (f *fixture) copied() {
	f.t.Helper()
	done := make(chan struct{})
	go func() { f.streams.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(testkit.Patience):
		f.t.Fatal("the output is not copied")
	}
}

func (f *fixture) losses() []Loss {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Loss(nil), f.lost...)
}

func (f *fixture) lostLines() (n int) {
	for _, l := range f.losses() {
		n += l.Lines
	}
	return n
}

func contents(t *testing.T, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	must(t, err)
	return string(b)
}

// collector is a sink that keeps lines and can fail.
type collector struct {
	turns
	text bytes.Buffer
	err  error
}

func newCollector() *collector { return &collector{turns: newTurns(1)} }

func (c *collector) line(t *turn, _ *source, text []byte, _ bool) {
	if c.err != nil {
		t.fail(1, c.err)
		return
	}
	c.text.Write(text)
	c.text.WriteByte('\n')
}

func (c *collector) flush(*turn, *source) {}

var must = testkit.Must
