package testkit

import (
	"testing"
	"time"
)

// Patience is how long a test waits for what takes milliseconds on an idle machine. It is for
// machines under load: a test that fails may be slow, a test that passes never needs it.
const Patience = 2 * time.Minute

// Pauses between two looks. A pause grows with the time that has passed, up to restMost.
const (
	restLeast = 2 * time.Millisecond
	restMost  = 20 * time.Millisecond
	// A look may run a command, and dozens of tests look at once. Each pauses for restShare times
	// as long as its look took, so the looks leave the machine to what they look at.
	restShare = 5
	restLimit = time.Second
)

// Look calls complaint until it has nothing to complain about, or limit has passed. It returns how
// long that took and the last complaint, which is empty if the wait was not in vain.
func Look(limit time.Duration, complaint func() string) (took time.Duration, last string) {
	begin := time.Now()
	for {
		look := time.Now()
		last = complaint()
		took = time.Since(begin)
		if last == "" || took > limit {
			return took, last
		}
		time.Sleep(min(max(restLeast, min(took/50, restMost), restShare*time.Since(look)),
			restLimit))
	}
}

// Await waits until there is no complaint about what is awaited, and returns how long that took.
// After limit it ends the test with the last complaint.
func Await(t testing.TB, limit time.Duration, what string,
	complaint func() string) time.Duration {
	t.Helper()
	took, last := Look(limit, complaint)
	if last != "" {
		t.Fatalf("not within %v: %s: %s", limit, what, last)
	}
	return took
}

// Instead makes a complaint of a text that does not say what is awaited. Await takes an empty
// complaint for none, and the text may be empty, so the complaint has words of its own.
func Instead(text string) string { return "there is instead:\n" + text }

// Virtual is Look in virtual time, where a look costs nothing: it looks every pause until ok holds
// or limit has passed, and tells whether it held.
func Virtual(limit, pause time.Duration, ok func() bool) (took time.Duration, held bool) {
	for begin := time.Now(); ; time.Sleep(pause) {
		held, took = ok(), time.Since(begin)
		if held || took > limit {
			return took, held
		}
	}
}

// Eventually is Await for a condition that is either so or not so. It waits for Patience.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if _, last := Look(Patience, unless(ok)); last != "" {
		t.Fatalf("not within %v: %s", Patience, what)
	}
}

// unless complains as long as ok does not hold.
func unless(ok func() bool) func() string {
	return func() string {
		if ok() {
			return ""
		}
		return "not so"
	}
}
