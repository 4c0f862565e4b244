package dispatch

import "io"

// ParsePath is parsePath, for its tests.
func ParsePath(escaped string) (item string, all, ok bool) {
	t := parsePath(escaped)
	return t.item, t.all, t.ok
}

// InFlight is how many requests are under way, in all and to a member.
func (d *Dispatcher) InFlight(member string) (all, to int) {
	d.members.mu.Lock()
	defer d.members.mu.Unlock()
	return int(d.all.n.Load()), d.members.n[member]
}

// ReplayBytes is how much of a body can be sent again.
const ReplayBytes = replayBytes

// Tape is a request's body.
type Tape struct{ *tape }

func NewTape(src io.Reader) Tape   { return Tape{newTape(src)} }
func (t Tape) Play() io.ReadCloser { return t.play() }
func (t Tape) Close()              { t.close() }
