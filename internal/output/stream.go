//go:build unix

package output

import (
	"bytes"
	"errors"
	"os"
	"syscall"
)

// MaxLine is how long a line may be, in bytes. A longer one is cut into pieces. It is the bound of
// Docker's logs.
const MaxLine = 16 << 10

// pipeSize is how much a command can have written that was not read.
const pipeSize = 64 << 10

// errNotTaken is why the rest of what a command wrote is missing that has ended.
var errNotTaken = errors.New("nobody took it, and its command has ended")

// stream is one of the two streams of a command.
type stream struct {
	item   string
	number int
	from   *os.File // the pipe
	sink   sink
	copier *Copier
	ended  <-chan struct{}

	held []byte // the beginning of a line
	open bool   // the last piece that was written does not end its line
}

// copy returns when the pipe has no writer any more, or when the command has ended and what was in
// the pipe then is copied or dropped.
func (s *stream) copy() {
	defer s.from.Close()
	buf := make([]byte, 4096)
	var err error
	for n := 0; err == nil; {
		n, err = s.from.Read(buf)
		s.take(buf[:n])
	}
	if errors.Is(err, os.ErrDeadlineExceeded) { // the command has ended, and left this
		for left := pipeSize; left > 0; {
			n := s.rest(buf[:min(left, len(buf))])
			if n <= 0 {
				break
			}
			s.take(buf[:n])
			left -= n
		}
	}
	if len(s.held) > 0 || s.open {
		s.write(append(s.held, '\n'))
	}
}

// rest reads what is in the pipe without waiting.
func (s *stream) rest(buf []byte) (n int) {
	raw, err := s.from.SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) { n, _ = syscall.Read(int(fd), buf) })
	}
	return n
}

// take writes the lines that data ends, and keeps the rest.
func (s *stream) take(data []byte) {
	s.held = append(s.held, data...)
	if end := bytes.LastIndexByte(s.held, '\n') + 1; end > 0 {
		s.write(s.held[:end])
		s.held = append([]byte(nil), s.held[end:]...)
	}
	if len(s.held) >= MaxLine {
		s.write(s.held)
		s.held = s.held[:0]
	}
}

// write waits for the sink, but not for long after the command's end.
func (s *stream) write(text []byte) {
	lines := bytes.Count(text, []byte{'\n'})
	s.open = text[len(text)-1] != '\n'
	if s.open {
		lines++
	}
	written, err := 0, errNotTaken
	turns := s.sink.all()
	select {
	case turns <- struct{}{}:
		written, err = s.sink.write(s, text)
		<-turns
	case <-s.ended:
	case <-s.copier.over:
	}
	if err != nil {
		s.copier.losses.add(s.item, max(lines-written, 1), err)
	}
}
