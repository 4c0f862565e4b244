//go:build unix

package output

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"sync"
	"unicode/utf8"

	"github.com/coordd/coordd/internal/printable"
	"golang.org/x/sys/unix"
)

const (
	// pipeWhole is PIPE_BUF, the most that a pipe takes as one: coordd's own log goes to the same
	// pipe as a rule.
	pipeWhole = 4096
	// maxAlign is the longest id that others are aligned with, in characters.
	maxAlign = 24
)

// prefixed writes lines to standard output or error, with id and stream before them.
type prefixed struct {
	turns
	fd       int
	most     int // bytes in one write
	terminal bool
	width    *width
}

// newPrefixed returns the sinks of both streams. Where these lead to one file it is one sink, so
// that long lines do not mix.
func newPrefixed(stdout, stderr int, terminal [2]bool) (out, err *prefixed) {
	w := &width{}
	out = &prefixed{turns: newTurns(1), fd: stdout, terminal: terminal[0], width: w}
	err = &prefixed{turns: newTurns(1), fd: stderr, terminal: terminal[1], width: w}
	var a, b unix.Stat_t
	if unix.Fstat(out.fd, &a) == nil && unix.Fstat(err.fd, &b) == nil && a.Dev == b.Dev &&
		a.Ino == b.Ino {
		err.turns = out.turns
	}
	out.most, err.most = mostAtOnce(&a), mostAtOnce(&b)
	return out, err
}

func mostAtOnce(st *unix.Stat_t) int {
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		return turnSize
	}
	return pipeWhole
}

func (p *prefixed) line(t *turn, s *source, text []byte, _ bool) {
	before := len(t.out)
	if s.head == nil || p.terminal { // where the ids of others count
		s.head = p.prefix(s.head[:0], s)
	}
	t.out = append(append(append(t.out, s.head...), text...), '\n')
	if len(t.out) > p.most && before > 0 {
		// what was there goes as one
		p.write(t, t.out[:before])
		t.lines = 0
		t.out = append(t.out[:0], t.out[before:]...)
	}
	t.lines++
}

func (p *prefixed) flush(t *turn, _ *source) {
	p.write(t, t.out)
	t.out, t.lines = t.out[:0], 0
}

// write counts the lines that are not written whole.
func (p *prefixed) write(t *turn, text []byte) {
	n, err := writeAll(p.fd, text)
	if err != nil {
		t.fail(t.lines-bytes.Count(text[:n], []byte{'\n'}), err)
	}
}

func (p *prefixed) prefix(to []byte, s *source) []byte {
	id := printable.Line(s.item)
	name := streamNames[s.stream]
	if !p.terminal {
		return fmt.Appendf(to, "%s %s | ", id, name)
	}
	pad := p.width.of(utf8.RuneCountInString(id))
	colour := colours[colourOf(id)]
	if s.stream == 2 {
		name = "\x1b[31m" + name
	}
	return fmt.Appendf(to, "\x1b[%dm%s%*s %s\x1b[0m | ", colour, id, pad, "", name)
}

// colours are those that read well on dark and on light. Red is for standard error.
var colours = [...]int{32, 33, 34, 35, 36}

func colourOf(id string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return int(h.Sum32() % uint32(len(colours)))
}

// width is that of the longest id so far.
type width struct {
	mu   sync.Mutex
	most int
}

// of returns how many spaces an id of n characters needs.
func (w *width) of(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.most = max(w.most, min(n, maxAlign))
	return max(0, w.most-n)
}

// writeAll waits for a descriptor that others have made non-blocking, too. It holds a thread while
// the kernel does not take what is written.
func writeAll(fd int, text []byte) (n int, err error) {
	for n < len(text) {
		m, err := unix.Write(fd, text[n:])
		switch {
		case err == nil:
			n += m
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
			if _, err := unix.Poll(ready, -1); err != nil && !errors.Is(err, unix.EINTR) {
				return n, os.NewSyscallError("poll", err)
			}
		default:
			return n, os.NewSyscallError("write", err)
		}
	}
	return n, nil
}
