// Package electiontest is the one suite of scenarios that every store of elections has to pass: run
// from the tests of onconsul and onzk, in virtual time and against real servers.
//
// Every scenario, whatever else it shows, is held to these: no two candidates lead at once, tokens
// rise from leader to leader, each participant gets exactly one last message and then a closed
// channel, and no message comes twice.
package electiontest

import "github.com/coordd/coordd/actors/election"

// Store is a running store, with nothing in it. Its methods fail the test when they cannot do what
// they say.
type Store interface {
	// Connect makes a connection with a session of its own.
	Connect() Link
	// Stop ends the server as a crash does; its data survives. Start brings it back and returns
	// when it answers.
	Stop()
	Start()
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
	// End has the store end its session at once, before its time, and without a word to its owner.
	End()
	// Cut lets nothing pass any more, in either direction, until Mend. A process that is cut off
	// for good has crashed, as far as others can tell.
	Cut()
	Mend()
	// Close ends it. It is closed at the end of the test anyway.
	Close()
}

// Resign ends candidacies, one after the other, and returns when each is over.
func Resign(all ...*election.Election) {
	for _, e := range all {
		e.Resign()
		<-e.Done()
	}
}
