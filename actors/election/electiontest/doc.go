// Package electiontest is the one suite of scenarios that every store of elections has to pass: run
// from the tests of onconsul and onzk, in virtual time and against real servers.
//
// Every scenario, whatever else it shows, is held to these: no two candidates lead at once, tokens
// rise from leader to leader, each participant gets exactly one last message and then a closed
// channel, and no message comes twice.
package electiontest

import (
	"testing"

	"github.com/coordd/coordd/actors/election"
)

// Store is a running store, with nothing in it. Its methods fail the test when they cannot do what
// they say.
type Store interface {
	// Connect makes a connection with a session of its own.
	Connect() Link
	// Stop ends the server as a crash does; its data survives. Start brings it back and returns
	// when it answers.
	Stop()
	Start()
	// Expiries and Endings say in how many elections, side by side, and how often one after the
	// other, a leader's session is to expire and to be ended by hand.
	Expiries() (elections, rounds int)
	Endings() (elections, rounds int)
	// Virtual tells that time costs nothing and is exact.
	Virtual() bool
}

// Restorer is a store whose data an operator can save and bring back. What a store remembers beside
// its data is forgotten then.
type Restorer interface {
	// Restore saves the data, and brings back what it has saved.
	Restore()
}

// Link is one connection.
type Link interface {
	election.Connection
	// Expire has the session that the connection has now expire: nothing passes any more until the
	// store has ended it by itself. Then it is mended.
	Expire()
	// End has the store end that session at once, before its time, and without a word to its owner.
	End()
	// Cut lets nothing pass any more, in either direction, until Mend. A process that is cut off
	// for good has crashed, as far as others can tell.
	Cut()
	Mend()
	// Close ends it. It is closed at the end of the test anyway.
	Close()
}

// Run plays all scenarios. For each it calls with, which makes a store and calls play with it.
func Run(t *testing.T, with func(t *testing.T, play func(*testing.T, Store))) {
	playScripts(t, with)
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			with(t, func(t *testing.T, store Store) {
				sc := newScenario(t, store)
				defer sc.finish()
				s.play(sc)
			})
		})
	}
}

// scenarios are those of many participants at once, which no script says.
var scenarios = []struct {
	name string
	play func(*scenario)
}{
	{"DeletedWhileManyRunAndManyJoin", deleteWhileManyJoin},
	{"EverySessionThatExpiresIsToldOnceWithItsReason", sessionsExpire},
	{"EverySessionThatIsEndedEarlyIsToldOnceWithItsReason", sessionsEnd},
}

// Resign ends candidacies, one after the other, and returns when each is over.
func Resign(all ...*election.Election) {
	for _, e := range all {
		e.Resign()
		<-e.Done()
	}
}
