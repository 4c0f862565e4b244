//go:build unix

package guard

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// waits has a command wait for a guard process that works, until the end of the test.
func waits(t *testing.T, g *Guard) {
	never := make(chan struct{})
	go g.await(t.Context(), never, nil)
	synctest.Wait()
}

// looksFor looks at a guard process, which answers, at the due times, for so long or until it is
// given up. It returns how long that took. 0: it is kept.
func looksFor(w *watch, limit time.Duration) (took time.Duration) {
	begin := time.Now()
	for n := 1; time.Since(begin) < limit; n++ {
		time.Sleep(watchEvery)
		w.l.take(event{Kind: evPong})
		if w.look(n) != nil {
			return time.Since(begin)
		}
	}
	return 0
}

func wantGivenUp(t *testing.T, took, after time.Duration) {
	t.Helper()
	if took < after || took > after+time.Second {
		t.Errorf("given up after %v, want %v", took, after)
	}
}

// As on a disk that has gone read-only: the member would keep its items, and run none.
func TestABoundGuardThatCannotHaveItsLockIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := testWatch()
		w.g.boundID = "file"
		if took := looksFor(w, 2*stuckAfter); took != 0 {
			t.Errorf("given up after %v although nothing waits for it", took)
		}
		w = testWatch()
		w.g.boundID = "file"
		waits(t, w.g)
		wantGivenUp(t, looksFor(w, 2*stuckAfter), stuckAfter)
		w = testWatch()
		w.g.boundID = "file"
		waits(t, w.g)
		early := looksFor(w, stuckAfter-time.Second)
		w.l.take(event{Kind: evLocked, Locked: true, LockID: "file"})
		if early != 0 || looksFor(w, stuckAfter) != 0 {
			t.Error("given up with its lock")
		}
	})
}

// As one that hangs while it opens its lock file: it is given a minute where nothing waits for it.
func TestAGuardThatDoesNotStartIsGivenUpBeforeItsTimeWhereACommandWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watch{g: New(Config{}), l: newLink(nil, nil, nil)}
		waits(t, w.g)
		wantGivenUp(t, looksFor(w, 2*stuckAfter), stuckAfter)
		if err := w.g.unstarted(ErrLost); !errors.Is(err, ErrStuck) {
			t.Errorf("Run says %v, want %v", err, ErrStuck)
		}
	})
}

// Whatever each of them fails of, the command has waited for all of it.
func TestTheTimeWithoutAGuardIsThatOfAllThatDidNotWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Config{})
		waits(t, g)
		begin := time.Now()
		for _, w := range []*watch{{g: g, l: newLink(nil, nil, nil)}, testWatch()} {
			w.g = g
			g.boundID = "file"
			if took := looksFor(w, stuckAfter/3); took != 0 {
				t.Fatalf("given up after %v", took)
			}
			if err := g.unstarted(ErrLost); errors.Is(err, ErrStuck) {
				t.Fatal(err)
			}
		}
		for !errors.Is(g.unstarted(ErrLost), ErrStuck) {
			time.Sleep(time.Second)
		}
		wantGivenUp(t, time.Since(begin), stuckAfter)
	})
}

// Nor is it one that a process was without while it stood still.
func TestTheTimeInWhichTheOwnerStoodStillCountsForAFifth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watch{g: New(Config{}), l: newLink(nil, nil, nil)}
		waits(t, w.g)
		_ = w.look(1)
		time.Sleep(time.Hour)
		wantGivenUp(t, looksFor(w, 2*stuckAfter), stuckAfter-stuckAfter/leastLooks)
	})
}
