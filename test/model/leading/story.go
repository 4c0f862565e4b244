package leading

import (
	"fmt"

	"github.com/coordd/coordd/test/model"
)

type verb uint8

const (
	ticks verb = iota
	opens
	renews
	losesSession
	crashes
	seesItLost
	catchesUp
	begins
	endsDuty
	expires
	endsEarly
)

// Of requests: what becomes of them, with their kind.
const (
	sends      verb = 20
	sendsTwice verb = 30
	sendsLate  verb = 40
	arrives    verb = 50
)

var kinds = [...]string{
	take: "take", newEpoch: "new epoch", resign: "resignation",
	clear: "word that no earlier lease can be valid",
}

// verbNames say what a process does; the last two are done to its session.
var verbNames = [256]string{
	ticks:        "a tick of time passes",
	opens:        "opens a session",
	renews:       "renews its session, which is confirmed",
	losesSession: "hears that its session is over",
	crashes:      "crashes",
	seesItLost:   "sees that the leader key is not its own",
	catchesUp:    "sees that the leader key was touched, and goes on with that epoch",
	begins:       "begins to lead: Lead runs",
	endsDuty:     "is to stop, and its Lead ends",
	expires:      "expires",
	endsEarly:    "is ended by an operator",
}

// tell puts a step into a line.
func tell(step model.Step, before, after *state) string {
	who, v := fmt.Sprintf("P%d", step.Who+1), verb(step.Verb)
	switch v {
	case ticks:
		text := verbNames[v]
		for p := range before.proc {
			if before.proc[p].duty && !after.proc[p].duty {
				text += fmt.Sprintf(": P%d's Lead ends with its lease", p+1)
			}
		}
		return text
	case expires, endsEarly:
		who = fmt.Sprintf("session %d of P%d", int(step.Who-1)%sessionsEach+1, ownerOf(step.Who)+1)
	}
	if v < sends {
		return who + " " + verbNames[v]
	}
	what := who + "'s " + kinds[v%10]
	switch v - v%10 {
	case sends:
		return what + " is applied"
	case sendsTwice:
		return what + " is applied; a copy of it stays under way"
	case sendsLate:
		return what + " gets no answer and stays under way"
	}
	return what + " arrives, and is applied"
}
