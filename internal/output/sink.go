//go:build unix

package output

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/coordd/coordd/internal/printable"
)

// turns are the rights to write to a sink: they bound the threads that a blocked one holds.
type turns chan struct{}

func (t turns) all() chan struct{} { return t }

// sink takes text. Its write is called by who has one of its turns.
type sink interface {
	all() chan struct{}
	// write takes whole lines, or a piece of a line that does not end yet. It returns how many
	// lines were written.
	write(s *stream, text []byte) (lines int, err error)
}

// pipeWhole is how much the kernel writes to a pipe as one, PIPE_BUF: others write to it too.
const pipeWhole = 4096

// prefixed writes lines to standard output or error, with id and stream before them.
type prefixed struct {
	turns
	fd int
}

// newPrefixed returns the sinks of both streams. Where these lead to one file they share one turn,
// so that long lines do not mix.
func newPrefixed(stdout, stderr int) (out, err *prefixed) {
	out, err = &prefixed{make(turns, 1), stdout}, &prefixed{make(turns, 1), stderr}
	var a, b unix.Stat_t
	if unix.Fstat(stdout, &a) == nil && unix.Fstat(stderr, &b) == nil && a.Dev == b.Dev &&
		a.Ino == b.Ino {
		err.turns = out.turns
	}
	return out, err
}

func (p *prefixed) write(s *stream, text []byte) (lines int, err error) {
	head := printable.Line(s.item) + [...]string{1: " out | ", 2: " err | "}[s.number]
	var out []byte
	pending := 0
	for len(text) > 0 && err == nil {
		line, rest, _ := bytes.Cut(text, []byte{'\n'})
		if text = rest; len(out) > 0 && len(out)+len(head)+len(line) >= pipeWhole {
			if _, err = writeAll(p.fd, out); err == nil {
				lines += pending
			}
			out, pending = out[:0], 0
		}
		out = append(append(append(out, head...), line...), '\n')
		pending++
	}
	if err == nil {
		if _, err = writeAll(p.fd, out); err == nil {
			lines += pending
		}
	}
	return lines, err
}

const (
	// fileTurns bounds the threads that a hanging disk takes away.
	fileTurns = 4
	// maxName is how long a file name may be, in bytes.
	maxName   = 255
	extension = ".log"
)

// files appends lines to a file for each item. It opens the file for each write: so nothing has to
// be told when it is renamed, and 10,000 silent items hold no descriptor of theirs.
type files struct {
	turns
	root *os.Root
}

func (f *files) write(s *stream, text []byte) (lines int, err error) {
	file, err := f.root.OpenFile(fileName(s.item), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return 0, err
	}
	n, err := writeAll(int(file.Fd()), text)
	if err != nil {
		err = &os.PathError{Op: "write", Path: file.Name(), Err: err}
	}
	return bytes.Count(text[:n], []byte{'\n'}), errors.Join(err, file.Close())
}

// fileName is a name of its own for each item. What is no letter or digit of ASCII, nor one of
// "._-@+=,:", is escaped as in a URL, and so is a dot at the beginning. Of a name that is too long
// the end is replaced by a hash.
func fileName(item string) string {
	var b strings.Builder
	for i := range len(item) {
		switch c := item[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9',
			i > 0 && c == '.', strings.IndexByte("_-@+=,:", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	name := b.String()
	if len(name)+len(extension) > maxName {
		sum := fmt.Sprintf("%%~%x", sha256.Sum256([]byte(item))) // no escape begins like this
		name = name[:maxName-len(extension)-len(sum)] + sum
	}
	return name + extension
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
