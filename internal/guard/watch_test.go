//go:build unix

package guard

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// In the package: it takes 10 s of real time from outside.

// testWatch is that of a guard process that has started.
func testWatch() *watch {
	w := &watch{g: New(Config{}), l: newLink(nil, nil, nil)}
	w.hello(event{Kind: evHello, Token: "test"})
	return w
}

// mortalWatch is that of a guard process that dies when it is killed.
func mortalWatch() *watch {
	exited := make(chan struct{})
	return &watch{g: New(Config{}), exited: exited, cmd: &exec.Cmd{Process: &os.Process{}},
		l: newLink(nil, nil, sync.OnceFunc(func() { close(exited) }))}
}

// starts has the guard process start a command.
func starts(w *watch) *job {
	j := w.l.start(command{Kind: cmdStart}, w.g.lease)
	w.l.take(event{Kind: evStarted, ID: j.id, PID: int(j.id)})
	return j
}

// looksUntilLate is how many looks it takes to give the guard process up for its work. 0: it is
// kept.
func looksUntilLate(w *watch) int {
	for n := range 10 {
		if _, err := w.lookAtWork(); err != nil {
			return n + 1
		}
	}
	return 0
}

// On a host that is so busy, one that is killed for it and started again would never come up.
func TestAGuardThatIsSlowToStartIsGivenAMinute(t *testing.T) {
	w := &watch{g: New(Config{}), l: newLink(nil, nil, nil)}
	n := 1
	for ; w.look(n) == nil; n++ {
		if n > 10*startWithin {
			t.Fatal("never given up")
		}
	}
	if took := time.Duration(n) * watchEvery; took < time.Minute || took > 62*time.Second {
		t.Errorf("given up after %v, want a minute", took)
	}
}

func TestAGuardThatWasSlowToStartHasTimeToAnswer(t *testing.T) {
	w := &watch{g: New(Config{}), l: newLink(nil, nil, nil)}
	for n := 1; n < pingEvery+startWithin; n++ {
		if err := w.look(n); err != nil {
			t.Fatalf("look %d: %v", n, err)
		}
	}
	w.hello(event{Kind: evHello, Token: "test"})
	for n := 1; n < silentAfter; n++ {
		if err := w.look(n); err != nil {
			t.Fatalf("look %d after its start: %v", n, err)
		}
	}
	if w.look(silentAfter) == nil {
		t.Error("it is kept although it does not answer")
	}
}

// It runs nothing yet, and may not hear its owner before its look for leftovers is over.
func TestAGuardThatIsSlowToStartIsNotWaitedForAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mortalWatch()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begun := time.Now()
		if err := w.until(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took > stopSlack {
			t.Errorf("it took %v, with nothing to stop", took)
		}
	})
}

func TestAGuardThatDoesNotAnswerIsGivenUp(t *testing.T) {
	w := testWatch()
	n := 1
	for ; w.look(n) == nil; n++ {
		if n > 10*silentAfter {
			t.Fatal("never given up")
		}
	}
	if want := pingEvery + silentAfter; n != want {
		t.Errorf("given up after %d looks, want %d", n, want)
	}
}

func TestAGuardThatAnswersLateIsKept(t *testing.T) {
	w := testWatch()
	for n := 1; n < 10*silentAfter; n++ {
		if w.unanswered == silentAfter-1 {
			w.l.take(event{Kind: evPong})
		}
		if err := w.look(n); err != nil {
			t.Fatalf("look %d: %v", n, err)
		}
	}
}

// A ping waits behind the starts before it: 2,000 of them take longer than an answer may, where the
// machine is busy. One killed for that begins with all of them again.
func TestAGuardThatStartsAndEndsCommandsIsKept(t *testing.T) {
	for _, kind := range []eventKind{evStarted, evExited} {
		w := testWatch()
		n := 1
		for ; n < 10*silentAfter; n++ {
			if n%(silentAfter-1) == 0 {
				w.l.take(event{Kind: kind})
			}
			if err := w.look(n); err != nil {
				t.Fatalf("look %d: %v", n, err)
			}
		}
		for ; w.look(n) == nil; n++ {
			if n > 20*silentAfter {
				t.Fatal("never given up")
			}
		}
	}
}

func TestWorkPastTheLeaseIsSeenTwiceBeforeTheGuardIsGivenUp(t *testing.T) {
	w := testWatch()
	w.g.Lease("s1", time.Now(), 0)
	if n := looksUntilLate(w); n != 0 {
		t.Errorf("given up at look %d with nothing running", n)
	}
	starts(w)
	if n := looksUntilLate(w); n != 2 {
		t.Errorf("given up at look %d, want the second one", n)
	}
}

// With the least margin there are 37 ms between work that is late and the end of the lease.
func TestAGuardIsGivenUpBeforeTheEndOfTheLease(t *testing.T) {
	for _, margin := range []time.Duration{MinMargin, time.Second, 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w := mortalWatch()
			w.hello(event{Kind: evHello, Token: "test"})
			until := time.Now().Add(6 * time.Second)
			w.g.Lease("s1", until, margin)
			starts(w)
			if err := w.until(t.Context()); err == nil {
				t.Error("no cause is given")
			}
			if left := time.Until(until); left < margin/8 || left > margin/5 {
				t.Errorf("margin %v: it is given up %v before the end, want %v to %v", margin, left,
					margin/8, margin/5)
			}
		})
	}
}

// Nor could the next one end it: a process that waits for a disk, one of another user, one that has
// much memory to give back.
func TestAGuardIsKeptThatHasKilledWhatDoesNotDie(t *testing.T) {
	w := testWatch()
	w.g.Lease("s1", time.Now(), 0)
	w.l.take(event{Kind: evKilled, ID: starts(w).id})
	w.g.Lease("s2", time.Now(), 0)
	if looksUntilLate(w) != 0 {
		t.Fatal("it is given up")
	}
	starts(w)
	if looksUntilLate(w) == 0 {
		t.Error("kept although it has not killed another one")
	}
}

// The guard process may have started it, and been frozen before it could say so.
func TestACommandThatTheGuardWasToldToStartCountsAsRunning(t *testing.T) {
	for _, c := range []struct {
		name              string
		then              time.Duration // what was left of the lease
		told, runs, fails bool
	}{
		{"still to be told", time.Hour, false, false, false},
		{"told in time", time.Hour, true, false, true},
		{"told too late to start", MinMargin - 1, true, false, false},
		{"started before a lease that says less", MinMargin - 1, true, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := testWatch()
			w.g.Lease("s1", time.Now().Add(c.then), 0)
			j := w.l.start(command{Kind: cmdStart}, w.g.lease)
			if c.told {
				w.l.next()
			}
			if c.runs {
				w.l.take(event{Kind: evStarted, ID: j.id, PID: 1})
			}
			w.g.Lease("s1", time.Now().Add(c.then-time.Hour), 0)
			if fails := looksUntilLate(w) != 0; fails != c.fails {
				t.Errorf("given up for it: %v, want %v", fails, c.fails)
			}
		})
	}
}

// Each command is bound by its own lease, however many sessions have come since.
func TestWorkUnderALeaseIsLateWithThatLease(t *testing.T) {
	w := testWatch()
	for n, until := range []time.Time{time.Now(), inAnHour(), inAnHour()} {
		w.g.Lease(fmt.Sprint("s", n), until, 0)
		starts(w)
	}
	if looksUntilLate(w) == 0 {
		t.Error("kept although the work of the first session runs on")
	}
	w.l.take(event{Kind: evExited, ID: 1})
	if looksUntilLate(w) != 0 {
		t.Error("given up for the work of a session that lasts")
	}
}

func inAnHour() time.Time { return time.Now().Add(time.Hour) }
