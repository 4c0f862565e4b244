package ownership

// index is one of Consul's: 0 is none. States hold ranks, not the numbers themselves: nobody but a
// reader of Consul's log asks more than which of two is larger. See compress.
type index = uint8

// session numbers a session: 0 is none. A process has sessionsEach of them, one after the other.
type session = uint8

const (
	ids          = 2 // member ids: A, whose processes have the troubles, and B
	procs        = 4 // the most processes, of both ids
	sessionsEach = 2
	leaders      = 2
	slots        = 2 // sequence keys of a leader: as many of its writes may be under way
	inNet        = 3 // requests that are late, or copies
)

// record is members/<id>.
type record struct {
	session session
	created index
}

type hold uint8 // what an assignment key says

const (
	free hold = iota // there is no key
	own
	rel
)

// key is assignments/<id>/<item>, of the one item; and what a member has seen of it.
type key struct {
	hold              hold
	session           session // to which it was granted
	created, modified index
}

// ack is acks/<id>.
type ack struct {
	index   index // 0: there is none
	session session
	ttl     uint8 // ticks
	clear   bool
	stopped bool
}

type life uint8

const (
	unborn  life = iota
	up           // it may still be frozen, or cut off: then its steps are not taken
	crashed      // its work and its guard may be there
	gone         // nothing is left but, for a moment, its session
)

// proc is one process that runs a member.
type proc struct {
	life    life
	session session // that it knows of
	opened  uint8   // how many sessions
	lease   uint8   // ticks that are left
	// registered is the CreateIndex of its record, as far as it knows; 0: it is not registered.
	registered index
	// wait is until when inherited items wait: ticks + 1; 1: that is over; 0: there was nothing to
	// wait for.
	wait uint8
	// the longest lease that a predecessor may hold, ticks; 0: none longer than its own
	inherit  uint8
	view     key   // of its assignment
	work     index // token of the work that runs; 0: none does
	final    index // token of the work that was stopped to be given up
	released index // highest token that was given up
}

type phase uint8

const (
	idle  phase = iota // it does not lead, by what it knows
	taken              // it leads, and has to open its sequence keys and to read everything
	ready              // it plans and writes
	doubt              // the outcome of a write is unknown
)

// leader is one that may lead: by itself, apart from the members, for its safety is the guard, not
// its lease.
type leader struct {
	phase    phase
	epoch    index
	sequence [slots]index
	absent   [ids]absence
}

// absence is a member without a record that is waited for.
type absence struct {
	confirmed bool
	ack       index // its ack all the while; 0: there was none
	left      uint8 // of the grace, ticks
	waited    uint8 // ticks
}

// note is what the leader state says of an absence.
type note struct {
	ack    index
	waited uint8
}

// faults counts what may still go wrong.
type faults struct {
	Crashes  uint8 // of a process: its work goes on until its guard ends it
	EarlyEnd uint8 // sessions that an operator ends inside their lease
	Late     uint8 // requests without an answer, which arrive at any later moment or never
	Copies   uint8 // requests that are applied, or refused, and delivered again at any later moment
	Past     uint8 // times that a server falls behind, and answers reads from that moment on
	Deletes  uint8 // records that a stranger deletes
	Takes    uint8 // of the leadership, after the first
	Moves    uint8 // keys that the leader revokes, or calls back
	Leaves   uint8 // processes that stop cleanly, for good or for a while
	Notes    uint8 // notes of graces
	Replies  uint8 // renewals whose answer takes a while
}

// state is everything, in Consul and elsewhere.
type state struct {
	// Consul.
	record   [ids]record
	key      [ids]key
	ack      [ids]ack
	join     [ids]index // sequence key of registrations that find no ack
	alive    uint8      // sessions, a bit each
	holder   uint8      // of the leader key: 1 + the leader; 0: nobody
	epoch    index      // ModifyIndex of the leader key, of the last one if there is none
	sequence [slots]index
	noted    [ids]note

	proc   [procs]proc
	leader [leaders]leader
	net    [inNet]message // what is under way, in order

	past     key   // of id A, at a server that has fallen behind
	pastAt   index // as far as that one's log goes; 0: there is none
	reply    uint8 // the lease that an answer under way will give
	replyTo  uint8 // 1 + the process; 0: none is
	token    index // the highest that work was begun with
	tokenOf  uint8 // 1 + the process
	left     faults
	breached breach
}

type breach uint8

const (
	none breach = iota
	tokenFell
	deposedWrote
	appliedTwice
	twoOwners
	twoKeys
	stuckKey
)

var breaches = [...]string{
	"", "a token does not rise",
	"the write of a deposed leader is accepted", "a write takes effect twice",
	"two processes work on one item", "one item has two keys",
	"nobody may start the item: its key is for a session that is gone",
}

func (s *state) exists(x session) bool { return x != 0 && s.alive&(1<<(x-1)) != 0 }

// ownerOf is the process whose session this is.
func ownerOf(x session) int { return int(x-1) / sessionsEach }

// end ends a session in Consul: what it has locked is deleted.
func (s *state) end(x session) {
	s.alive &^= 1 << (x - 1)
	for id := range s.record {
		if s.record[id].session == x {
			s.record[id] = record{}
		}
	}
}

// working counts the processes that work on the item.
func (s *state) working() int {
	n := 0
	for i := range s.proc {
		if s.proc[i].work != 0 {
			n++
		}
	}
	return n
}

// known tells whether a process is known to be dead by whoever is on its host: nothing of it is
// left.
func (s *state) known(p int) bool {
	x := &s.proc[p]
	return (x.life == crashed || x.life == gone) && x.work == 0
}
