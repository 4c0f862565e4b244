//go:build linux

package e2e_test

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/realconsul"
)

// Not parallel: a thousand shells that start at once leave nothing of a machine to the other tests.
func TestAThousandImportedItemsRunOnceEachAndMoveAtOnceWhenAMemberStops(t *testing.T) {
	s := newService(t, realconsul.Shared(t).Addr())
	// Many a program takes a second SIGTERM for "at once": here it would be written down as a
	// second stop.
	s.exec = strings.Replace(work, `trap "" TERM; `, "", 1)
	if s.exec == work {
		t.Fatal("the work still ignores a second SIGTERM")
	}
	s.startThree(unhurried...)

	begin := time.Now()
	items := s.share(1000)
	if got := s.since(0); !slices.Equal(got.starts().items(), items) || len(got.stops()) > 0 {
		t.Fatalf("%d starts and %d stops, not one start for each of %d items", len(got.starts()),
			len(got.stops()), len(items))
	}
	all := s.since(0)
	t.Logf("1000 items run %v after the import began",
		all[len(all)-1].at.Sub(begin).Round(time.Millisecond))

	for _, who := range []string{"follower", "leader"} {
		id := s.now().Leader.ID
		if who == "follower" {
			id = s.others(id)[0]
		}
		its, mark := s.of(id), s.mark()
		begin := time.Now()
		s.members[id].signal(syscall.SIGTERM)
		code, took := s.members[id].ends(workLimit)
		if code != 0 {
			t.Errorf("the %s ended with code %d after SIGTERM", who, code)
		}
		s.runs(items)
		moved := s.since(mark)
		if !slices.Equal(moved.starts().items(), its) || !slices.Equal(moved.stops().items(), its) {
			t.Errorf("the %s had %d items; %d stopped and %d were started", who, len(its),
				len(moved.stops()), len(moved.starts()))
		}
		if slices.Contains(moved.starts().members(), id) {
			t.Errorf("the %s starts work after SIGTERM", who)
		}
		gaps := moved.gaps()
		all := moved[len(moved)-1].at.Sub(begin)
		t.Logf("SIGTERM to the %s: %d items, all run elsewhere after %v; each stood still for %v "+
			"(median) to %v; exit after %v",
			who, len(its), all.Round(time.Millisecond), gaps[len(gaps)/2].Round(time.Millisecond),
			gaps[len(gaps)-1].Round(time.Millisecond), took.Round(time.Millisecond))
		// At once: nobody waits for a session to end, or a grace.
		if all > soon {
			t.Errorf("the hand-over took %v, more than %v", all, soon)
		}
		testkit.Await(t, workLimit, "every member has its share", func() string {
			return s.now().unlike(len(s.others()), len(items))
		})
	}
	if n := len(s.since(0).starts()); n != 1000+len(s.since(0).stops()) {
		t.Errorf("%d starts, %d stops", n, len(s.since(0).stops()))
	}
}

func TestAMemberThatJoinsGetsItsShareAndNothingElseMoves(t *testing.T) {
	t.Parallel()
	s := newService(t, realconsul.Shared(t).Addr())
	s.startThree()
	items := s.share(100)

	mark, begin := s.mark(), time.Now()
	s.start("n4")
	testkit.Await(t, workLimit, "four members with their shares", func() string {
		return s.now().unlike(4, 100)
	})
	s.runs(items)
	moved := s.since(mark)
	if n := len(s.of("n4")); n != 25 || len(moved.starts()) != 25 ||
		!slices.Equal(moved.starts().items(), moved.stops().items()) {
		t.Errorf("n4 has %d items; %d stopped and %d were started", n, len(moved.stops()),
			len(moved.starts()))
	}
	gaps := moved.gaps()
	t.Logf("join: 25 items moved %v after the start of the process; each stood still for %v "+
		"(median) to %v",
		moved[len(moved)-1].at.Sub(begin).Round(time.Millisecond),
		gaps[len(gaps)/2].Round(time.Millisecond), gaps[len(gaps)-1].Round(time.Millisecond))
}

func TestAddedWorkStartsAndRemovedWorkStopsAndTheRestStaysWhereItIs(t *testing.T) {
	t.Parallel()
	s := newService(t, realconsul.Shared(t).Addr())
	s.startThree()
	items := s.share(30)

	mark := s.mark()
	s.do("work", "add", "new-1", "new-2", "new-3", "--payload", "fresh")
	items = append(items, "new-1", "new-2", "new-3")
	took := s.runs(items)
	added := s.since(mark)
	if !slices.Equal(added.starts().items(), []string{"new-1", "new-2", "new-3"}) ||
		len(added.stops()) > 0 {
		t.Errorf("adding three: %+v", added)
	}
	for _, e := range added {
		if e.payload != "fresh" {
			t.Errorf("the payload of %s is %q", e.item, e.payload)
		}
	}
	if len(added.members()) != 3 {
		t.Errorf("three new items for three members went to %v", added.members())
	}
	t.Logf("added items run after %v", took.Round(time.Millisecond))

	mark = s.mark()
	s.do("work", "rm", "item-0000", "new-2")
	items = slices.DeleteFunc(items, func(id string) bool {
		return id == "item-0000" || id == "new-2"
	})
	took = s.runs(items)
	t.Logf("removed items are stopped after %v", took.Round(time.Millisecond))
	testkit.Await(t, workLimit, "the rest is owned", func() string {
		if w := s.now().Work; w.Total != 31 || w.Owned != 31 || w.Releasing+w.Free > 0 {
			return "not yet"
		}
		return ""
	})
	removed := s.since(mark)
	if !slices.Equal(removed.stops().items(), []string{"item-0000", "new-2"}) ||
		len(removed.starts()) > 0 {
		t.Errorf("removing two: %+v", removed)
	}
	if n := len(s.do("items")); n == 0 {
		t.Error("work list prints nothing")
	}
}
