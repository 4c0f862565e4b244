//go:build unix

package output

// turnSize is how much is read from a command at once. It is the size of a pipe.
const turnSize = 64 << 10

// turn is the right to write to a sink, with the memory for it. It is taken before anything is
// read: so the memory and the threads that a blocked sink holds are bounded, and the commands
// whose output waits are held up by their pipes.
type turn struct {
	in  []byte
	out []byte // formatted, not written yet
	// lines are those in out. above were not added, for the rate. failed could not be written, for
	// the reason err.
	lines, above, failed int
	err                  error
}

func (t *turn) fail(lines int, err error) {
	if err != nil {
		t.failed += lines
		t.err = err
	}
}

// turns are a sink's.
type turns chan *turn

func newTurns(n int) turns {
	c := make(turns, n)
	for range n {
		c <- &turn{} // the memory comes with the first use
	}
	return c
}

// take returns nil when cancelled is closed before there is a turn.
func (c turns) take(cancelled <-chan struct{}) *turn {
	select {
	case t := <-c:
		if t.in == nil {
			t.in = make([]byte, turnSize)
		}
		t.out, t.lines, t.above, t.failed, t.err = t.out[:0], 0, 0, 0, nil
		return t
	case <-cancelled:
		return nil
	}
}

func (c turns) give(t *turn) { c <- t }

// sink takes lines. Its methods are called by who has one of its turns.
type sink interface {
	take(cancelled <-chan struct{}) *turn
	give(t *turn)
	// line adds a line, or a piece of one that does not end yet, and may write what is there.
	line(t *turn, s *source, text []byte, ends bool)
	// flush writes what was added.
	flush(t *turn, s *source)
}

// source is whose lines they are.
type source struct {
	item   string
	stream int      // 1 is standard output, 2 is standard error
	env    []string // of the command: its own variables
	head   []byte   // what each line begins with, in prefixed
	note   bool     // what is said here about the command's output, and not the output itself
	// open tells that the last piece in the file does not end its line, and gap that something is
	// missing since.
	open, gap bool
}

// streamNames are those that operators see.
var streamNames = [...]string{1: "out", 2: "err"}
