// Package leading is a model of whose duty it is to lead: the leader key, the term, and the host's
// own Lead function, of which one may run at a time (docs/design.md, section 5: Term and Lead).
//
// There are three processes, whose members may all lead; and faults, which are counted. Time goes
// in ticks.
package leading

type (
	index   = uint8 // one of Consul's, or its place among those of its kind
	session = uint8 // 0: none; a process has sessionsEach, one after the other
)

const (
	procs        = 3
	sessionsEach = 2
	inNet        = 2
)

// term is the key of that name.
type term struct {
	index    index // 0: there is none
	session  session
	ttl      uint8 // ticks
	clear    bool
	resigned bool
}

type life uint8

const (
	up      life = iota // it may still be frozen, or cut off: then its steps are not taken
	crashed             // with all that ran in it
	gone                // it has stopped; a duty that ignores its context may run on for the lease
)

type proc struct {
	life    life
	session session
	opened  uint8
	lease   uint8
	epoch   index // by which it leads; 0: it does not
	// wait is until when its duty waits in this term: ticks + 1; 1: that is over; 0: there was
	// nothing to wait for.
	wait uint8
	// noted is the same of the last take that it sent with something to wait for.
	noted uint8
	duty  bool // the host's function runs
}

type kind uint8

const (
	nothing kind = iota
	take
	newEpoch
	clear
	resign
)

// message is a request that writes.
type message struct {
	kind    kind
	from    uint8
	copy    bool // it has been applied, and answered, once before
	session session
	leader  index // ModifyIndex of the leader key; 0: there is none
	term    index // ModifyIndex of the term
	next    term  // what the term is to be
	wait    uint8 // what the sender notes; not on the wire
}

// faults counts what may still go wrong.
type faults struct {
	Crashes  uint8 // of a process
	EarlyEnd uint8 // sessions that an operator ends inside their lease
	Late     uint8 // requests without an answer, which arrive at any later moment or never
	Copies   uint8 // requests that are applied and delivered again at any later moment
	Leaves   uint8 // processes that stop cleanly
	Abandons uint8 // of them with a duty that ignores its context
	Epochs   uint8 // that a leader takes within its term
}

type state struct {
	leader      session // that holds the key
	leaderIndex index
	term        term
	alive       uint8
	proc        [procs]proc
	net         [inNet]message
	left        faults
	twice       bool // a copy has been applied
}

func (s *state) exists(x session) bool { return x != 0 && s.alive&(1<<(x-1)) != 0 }

func ownerOf(x session) int { return int(x-1) / sessionsEach }

// end ends a session in Consul: a leader key that it holds is deleted.
func (s *state) end(x session) {
	s.alive &^= 1 << (x - 1)
	if s.leader == x {
		s.leader, s.leaderIndex = 0, 0
	}
}

// known tells whether a process is known to be dead: nothing of it runs any more.
func (s *state) known(p int) bool { return s.proc[p].life != up && !s.proc[p].duty }

// next is an index above all others.
func (s *state) next() index {
	n := max(s.leaderIndex, s.term.index)
	for i := range s.proc {
		n = max(n, s.proc[i].epoch)
	}
	for i := range s.net {
		n = max(n, s.net[i].leader, s.net[i].term)
	}
	return n + 1
}

// renumber gives the indexes of each of the two keys numbers as they come: nobody asks more
// than whether two are the same.
func (s *state) renumber() {
	var leader, term [64]index
	var leaders, terms index
	number := func(of *[64]index, last *index, p *index) {
		if *p == 0 {
			return
		}
		if of[*p] == 0 {
			*last++
			of[*p] = *last
		}
		*p = of[*p]
	}
	number(&leader, &leaders, &s.leaderIndex)
	number(&term, &terms, &s.term.index)
	for i := range s.proc {
		number(&leader, &leaders, &s.proc[i].epoch)
	}
	for i := range s.net {
		number(&leader, &leaders, &s.net[i].leader)
		number(&term, &terms, &s.net[i].term)
	}
}
