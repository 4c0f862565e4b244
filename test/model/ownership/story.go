package ownership

import (
	"fmt"

	"github.com/coordd/coordd/test/model"
)

type verb uint8

const (
	ticks verb = iota
	starts
	opens
	renews
	renewsThePast
	asks
	hears
	losesSession
	crashes
	adopts
	endsPredecessor
	seesRecordGone
	reads
	readsThePast
	begins
	stops
	dropsKey
	guardEndsWork
	expires
	endsEarly
	strangerDeletes
	fallsBehind
	loses
	takes
	deposed
	newEpoch
	opensWriter
	confirms
	notes
	leaves
)

// Of requests: what becomes of them, with their kind.
const (
	sends      verb = 40
	sendsTwice verb = 60
	isRefused  verb = 80
	sendsLate  verb = 100
	arrives    verb = 120
)

const (
	leaderBit = 0x10
	idShift   = 5
)

var idNames = [...]string{"A", "B"}

var kinds = [...]string{
	register: "registration", release: "release", settle: "word that no earlier lease can be valid",
	goodbye: "goodbye", lastGoodbye: "goodbye by its guard", pause: "goodbye for a while",
	grant: "grant to", revoke: "revocation of", cancel: "calling back of",
	reap: "taking over from", sweep: "sweep of",
}

func (m *Model) nameOf(p int) string {
	if p < m.bound.A {
		return fmt.Sprintf("A%d", p+1)
	}
	return fmt.Sprintf("B%d", p-m.bound.A+1)
}

func (m *Model) sessionName(x session) string {
	return fmt.Sprintf("session %d of %s", int(x-1)%sessionsEach+1, m.nameOf(ownerOf(x)))
}

// verbNames say what a process or a leader does; the last few are done by nobody.
var verbNames = [256]string{
	ticks:           "a tick of time passes",
	starts:          "is started",
	opens:           "opens a session",
	renews:          "renews its session, which is confirmed",
	asks:            "has its renewal confirmed; the answer takes a while",
	hears:           "hears the answer to its renewal",
	losesSession:    "hears that its session is over",
	crashes:         "crashes",
	adopts:          "finds that it is registered",
	endsPredecessor: "ends the session of its predecessor, which is dead",
	seesRecordGone:  "sees that its record is gone",
	reads:           "reads its assignments",
	readsThePast:    "reads its assignments from the server that has fallen behind",
	begins:          "begins to work",
	stops:           "stops its work, as its assignments say",
	dropsKey:        "sees that the key is gone",
	guardEndsWork:   "is dead, and its guard ends its work",
	leaves:          "stops, without being registered",
	loses:           "loses the leader key",
	takes:           "takes the leader key",
	newEpoch:        "takes a new epoch",
	opensWriter:     "moves the sequence keys and reads everything",
	confirms:        "confirms that a member is gone",
	notes:           "notes how long it has waited for a member",
	expires:         "a session expires",
	endsEarly:       "an operator ends a session",
	strangerDeletes: "a stranger deletes the record of A",
	fallsBehind:     "a server falls behind",
}

// tell puts a step into a line.
func (m *Model) tell(step model.Step, before, after *state) string {
	v, who := verb(step.Verb), ""
	if step.Who&leaderBit != 0 {
		who = fmt.Sprintf("L%d", step.Who&0xf+1)
	} else if int(step.Who) < procs {
		who = m.nameOf(int(step.Who))
	}
	id := idNames[step.Who>>idShift&1]
	switch v {
	case ticks:
		return verbNames[v] + m.ended(before, after)
	case strangerDeletes, fallsBehind:
		return verbNames[v]
	case expires:
		return m.sessionName(step.Who) + " expires"
	case endsEarly:
		return "an operator ends " + m.sessionName(step.Who)
	case renewsThePast:
		return who + "'s renewal is answered from the past: its session has ended"
	case deposed:
		return who + " sees that it is deposed"
	case confirms:
		return who + " confirms that " + id + " is gone: its grace begins"
	case notes:
		return who + " notes how long it has waited for " + id
	}
	if v < sends {
		return who + " " + verbNames[v]
	}
	return m.tellRequest(v, who, id)
}

// ended says whose work ended with a tick.
func (m *Model) ended(before, after *state) string {
	text := ""
	for p := range before.proc {
		if before.proc[p].work != 0 && after.proc[p].work == 0 {
			text += ": " + m.nameOf(p) + "'s work ends with its lease"
		}
	}
	return text
}

func (m *Model) tellRequest(v verb, who, id string) string {
	base := v - v%20
	k := kind(v - base)
	what := kinds[k]
	if k >= grant {
		what += " " + id
	}
	switch base {
	case sends:
		return fmt.Sprintf("%s's %s is applied", who, what)
	case sendsTwice:
		return fmt.Sprintf("%s's %s is applied; a copy of it stays under way", who, what)
	case isRefused:
		return fmt.Sprintf("%s's %s is refused; a copy of it stays under way", who, what)
	case sendsLate:
		return fmt.Sprintf("%s's %s gets no answer and stays under way", who, what)
	default:
		return fmt.Sprintf("%s's %s arrives, and is applied", who, what)
	}
}
