//go:build unix

package output

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"
)

// notePeriod is how often a command's output says how much of it is missing.
const notePeriod = 10 * time.Second

// errNotTaken is why the rest of what a command wrote is missing that has ended.
var errNotTaken = errors.New("nobody took it, and its command has ended")

// stream is one of the two streams of a run.
type stream struct {
	source
	run  *Run
	sink sink
	from *os.File // the pipe
	fd   int
	raw  syscall.RawConn
	text lines
	rate *rate.Limiter // nil: none

	dropped int       // lines above the rate, not said yet
	lost    int       // lines that could not be written, not said yet
	err     error     // why
	due     time.Time // when that is said; zero: there is nothing to say
}

func newStream(run *Run, from *os.File, sink sink, s source) (*stream, error) {
	raw, err := from.SyscallConn()
	if err != nil {
		return nil, err
	}
	st := &stream{source: s, run: run, sink: sink, from: from, raw: raw}
	if err := raw.Control(func(fd uintptr) { st.fd = int(fd) }); err != nil {
		return nil, err
	}
	return st, nil
}

// copy returns when the pipe has no writer any more, or when the command has ended and what was in
// the pipe then is copied, or when the run is abandoned.
func (s *stream) copy() {
	defer s.from.Close()
	left := -1 // how much is still to be read; negative: the command runs
	for left != 0 {
		if left < 0 {
			switch s.wait() {
			case readable:
			case over:
				left = pending(s.fd)
				continue
			case noteDue:
				if !s.turn(func(t *turn) { s.say(t, time.Now()) }) {
					s.abandon()
					return
				}
				continue
			}
		}
		n := 0
		taken := s.turn(func(t *turn) {
			in := t.in
			if left > 0 {
				in = in[:min(left, len(in))]
			}
			if n = read(s.fd, in); n > 0 {
				s.take(t, in[:n], time.Now())
			}
		})
		switch {
		case !taken:
			s.abandon()
			return
		case n < 0: // there is nothing just now
			if left > 0 {
				left = 0
			}
		case n == 0:
			left = 0
		case left > 0:
			left -= n
		}
	}
	if !s.turn(func(t *turn) { s.finish(t, time.Now()) }) {
		s.abandon()
	}
}

type happened int

const (
	readable happened = iota // or nobody writes any more
	over                     // the command has ended
	noteDue
)

func (s *stream) wait() happened {
	_ = s.from.SetReadDeadline(s.due)
	// Ended closes this first, and sets the deadline then: see there.
	select {
	case <-s.run.ended:
		return over
	default:
	}
	err := s.raw.Read(func(fd uintptr) bool {
		look := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(look, 0)
		return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
	})
	if err == nil {
		return readable
	}
	select {
	case <-s.run.ended:
		return over
	default:
	}
	if s.due.IsZero() {
		return over // the pipe is of no use any more
	}
	return noteDue
}

// turn does something with a turn of the sink, and writes what came of it. It returns false when
// the run was abandoned while it waited.
func (s *stream) turn(do func(t *turn)) bool {
	t := s.sink.take(s.run.cancelled)
	if t == nil {
		return false
	}
	do(t)
	s.sink.flush(t, &s.source)
	if t.failed > 0 {
		s.missing(time.Now())
		s.lost, s.err = s.lost+t.failed, t.err
		s.run.copier.losses.add(s.item, t.failed, t.err)
	}
	if t.above > 0 {
		s.run.copier.above.add(s.item, t.above, nil)
	}
	s.sink.give(t)
	return true
}

func (s *stream) missing(now time.Time) {
	if s.due.IsZero() {
		s.due = now.Add(notePeriod)
	}
}

// take adds what was read.
func (s *stream) take(t *turn, data []byte, now time.Time) {
	if !s.due.IsZero() && !now.Before(s.due) {
		s.say(t, now)
	}
	s.text.feed(data, func(text []byte, ends bool) { s.add(t, text, ends, now) })
}

func (s *stream) add(t *turn, text []byte, ends bool, now time.Time) {
	if s.rate != nil && !s.rate.AllowN(now, 1) {
		s.dropped++
		t.above++
		s.gap = true
		s.missing(now)
		return
	}
	s.sink.line(t, &s.source, text, ends)
}

// say adds a line about what is missing.
func (s *stream) say(t *turn, now time.Time) {
	note := ""
	if s.dropped > 0 {
		note = fmt.Sprintf("coordd: %s dropped: above %d a second", count(s.dropped),
			int(s.rate.Limit()))
	}
	if s.lost > 0 {
		if note != "" {
			note += "; "
		} else {
			note = "coordd: "
		}
		note += fmt.Sprintf("%s lost: %v", count(s.lost), s.err)
	}
	if note == "" {
		s.due = time.Time{}
		return
	}
	s.sink.flush(t, &s.source) // what came before is no part of whether this is written
	failed := t.failed
	s.gap, s.note = true, true
	s.sink.line(t, &s.source, []byte(note), true)
	s.sink.flush(t, &s.source)
	s.note = false
	if t.failed > failed {
		t.failed-- // the note itself is nobody's line
		s.due = now.Add(notePeriod)
		return
	}
	s.dropped, s.lost, s.err, s.due = 0, 0, nil, time.Time{}
}

// count is "1 line" or "3 lines".
func count(n int) string {
	if n == 1 {
		return "1 line"
	}
	return fmt.Sprintf("%d lines", n)
}

// finish adds a last line without a line break, and says what is missing.
func (s *stream) finish(t *turn, now time.Time) {
	s.text.end(func(text []byte, ends bool) { s.add(t, text, ends, now) })
	s.sink.flush(t, &s.source)
	s.say(t, now)
	if s.open {
		s.sink.line(t, &s.source, nil, true)
	}
}

// abandon counts what will not be written.
func (s *stream) abandon() {
	lost, partly := 0, len(s.text.held) > 0
	for left := pending(s.fd); left > 0; {
		var buf [4096]byte
		n := read(s.fd, buf[:min(left, len(buf))])
		if n <= 0 {
			break
		}
		left -= n
		lost += bytes.Count(buf[:n], []byte{'\n'})
		partly = buf[n-1] != '\n'
	}
	if partly {
		lost++
	}
	if lost > 0 {
		s.run.copier.losses.add(s.item, lost, errNotTaken)
	}
}

// read returns 0 when nobody writes any more, and -1 when there is nothing to read.
func read(fd int, to []byte) int {
	for {
		n, err := unix.Read(fd, to)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return -1
		case err != nil:
			return 0
		default:
			return n
		}
	}
}
