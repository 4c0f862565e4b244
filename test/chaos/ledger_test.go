//go:build linux

package chaos_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/internal/history"
)

// locked is what a child says that did not get the lock.
const locked = 99

// ledger turns what the children say into a history, and knows which of them run.
type ledger struct {
	// when the process of that number began, by the kernel; 0: there is none
	born  func(pid int) uint64
	clock func() uint64 // the present, by the same clock

	mu      sync.Mutex
	history *history.Recorder
	// by item; more than one only when something is wrong, or stood still
	running map[string][]child
	since   map[child]uint64 // when those of running began, by the kernel
	waiting map[child]bool   // those of running that do not have the item's lock
	// those that were found gone before a word of their end: it may come yet
	buried  map[child]bool
	frozen  map[string]bool  // processes that stand still, and their work with them
	stood   map[string]stand // the last time that a process did
	woken   map[string]time.Time
	unheard map[child]bool // those that were told to stop before they said that they had started
	faults  []string
}

// stand is when a process came to stand still, by both clocks.
type stand struct {
	at    time.Time
	ticks uint64
}

type child struct {
	pid   int
	proc  string
	token uint64
}

func (c child) String() string {
	return fmt.Sprintf("process %d of %s (token %d)", c.pid, c.proc, c.token)
}

func newLedger() *ledger {
	return &ledger{
		born: birthOf, clock: bootTicks, history: history.NewMemory(),
		running: map[string][]child{}, since: map[child]uint64{}, waiting: map[child]bool{},
		buried: map[child]bool{}, frozen: map[string]bool{}, stood: map[string]stand{},
		woken: map[string]time.Time{}, unheard: map[child]bool{},
	}
}

// alive tells whether a child of running is still there: another process may have its number by
// now.
func (l *ledger) alive(c child) bool {
	born := l.born(c.pid)
	return born != 0 && born == l.since[c]
}

// bury ends those that are gone without a word: they were killed. Nobody else may ever tell, since
// who would have had the lock next may be killed too.
func (l *ledger) bury() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for item := range maps.Clone(l.running) {
		l.buryOf(item)
	}
}

func (l *ledger) buryOf(item string) {
	for _, c := range slices.Clone(l.running[item]) {
		if !l.alive(c) {
			l.stop(item, c)
			l.buried[c] = true
		}
	}
}

func (l *ledger) fault(format string, args ...any) {
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

// line takes in what a child wrote: "start ITEM TOKEN PID PROC LOCK", "lock ITEM TOKEN PID PROC" or
// "stop ITEM TOKEN PID PROC".
func (l *ledger) line(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := strings.Fields(text)
	var token uint64
	var pid int
	var err, bad error
	if len(f) >= 5 {
		token, err = strconv.ParseUint(f[2], 10, 64)
		pid, bad = strconv.Atoi(f[3])
	}
	if err != nil || bad != nil || token == 0 || !(f[0] == "start" && len(f) == 6 ||
		(f[0] == "stop" || f[0] == "lock") && len(f) == 5) {
		l.fault("a line that no work writes: %q", text)
		return
	}
	item, c := f[1], child{pid, f[4], token}
	l.buryOf(item)
	known := slices.Contains(l.running[item], c)
	switch {
	case f[0] == "start":
		l.start(item, c, f[5] != strconv.Itoa(locked))
	case f[0] == "stop" && known:
		l.stop(item, c)
	case f[0] == "stop" && l.buried[c]:
		delete(l.buried, c)
	case f[0] == "stop":
		l.unheard[c] = true
	case known:
		l.hasLock(item, c)
	}
}

func (l *ledger) start(item string, c child, got bool) {
	if l.unheard[c] {
		l.fault("%s: %v starts after its stop", item, c)
	}
	l.since[c] = l.born(c.pid)
	began := l.began(c)
	if got {
		l.hasLock(item, c)
	} else {
		l.waiting[c] = true
		if len(l.running[item]) == 0 && !l.oneStands() {
			l.fault("%s: %v finds it locked, and nobody is known to work on it", item, c)
		}
	}
	for _, old := range l.running[item] {
		// One that has just been woken is about to be killed. Until then only its token tells that
		// it is late, as the history says.
		late := time.Since(l.woken[old.proc]) <= history.Notice && old.token < c.token
		fenced := !began.IsZero() && c.token < old.token
		if !l.frozen[old.proc] && !late && !fenced {
			l.fault("%s: %v begins while %v is at work", item, c, old)
		}
	}
	l.running[item] = append(l.running[item], c)
	l.history.Add(history.Event{At: began, Verb: history.Start, Proc: c.proc, Item: item,
		Token: c.token})
}

// began is when a child began whose process has stood still since: it may have had the lock, and
// not have said so yet. Zero: it begins now. One that is dead before its word is read is not known
// to have begun earlier but for a moment after its process was woken.
func (l *ledger) began(c child) time.Time {
	s, ok := l.stood[c.proc]
	if !ok || l.since[c] > s.ticks ||
		l.since[c] == 0 && time.Since(l.woken[c.proc]) > history.Notice {
		return time.Time{}
	}
	return s.at.Add(-time.Microsecond)
}

// oneStands tells whether some process stands still, or has just been woken: it may have a child
// that nothing is known of yet.
func (l *ledger) oneStands() bool {
	if len(l.frozen) > 0 {
		return true
	}
	for _, at := range l.woken {
		if time.Since(at) <= history.Notice {
			return true
		}
	}
	return false
}

// hasLock ends those that had the lock before: they were killed, and so could not say it. One that
// only waits for the lock may be alive.
func (l *ledger) hasLock(item string, c child) {
	delete(l.waiting, c)
	for _, old := range slices.Clone(l.running[item]) {
		if old != c && (!l.waiting[old] || !l.alive(old)) {
			l.stop(item, old)
		}
	}
}

func (l *ledger) stop(item string, c child) {
	l.running[item] = slices.DeleteFunc(l.running[item], func(o child) bool { return o == c })
	if len(l.running[item]) == 0 {
		delete(l.running, item)
	}
	delete(l.waiting, c)
	delete(l.since, c)
	l.history.Add(history.Event{Verb: history.Stop, Proc: c.proc, Item: item, Token: c.token})
}

// add records what happened to a process; an end takes its children with it.
func (l *ledger) add(v history.Verb, proc string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch v {
	case history.Freeze:
		l.frozen[proc] = true
		l.stood[proc] = stand{time.Now(), l.clock()}
	case history.Thaw:
		delete(l.frozen, proc)
		l.woken[proc] = time.Now()
	case history.End:
		for item, all := range maps.Clone(l.running) {
			for _, c := range slices.Clone(all) {
				if c.proc == proc {
					l.stop(item, c)
				}
			}
		}
	}
	l.history.Add(history.Event{Verb: v, Proc: proc})
}

// children lists those of one process that are at work.
func (l *ledger) children(proc string) (pids []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, all := range l.running {
		for _, c := range all {
			if c.proc == proc && l.alive(c) {
				pids = append(pids, c.pid)
			}
		}
	}
	return pids
}

// unlike says what is missing to each item of the workload having one living child, and to each
// member having its share.
func (l *ledger) unlike(items map[string]bool, procs []string) string {
	l.bury()
	l.mu.Lock()
	defer l.mu.Unlock()
	loads := map[string]int{}
	for _, p := range procs {
		loads[p] = 0
	}
	free := 0
	for item := range items {
		if len(l.running[item]) == 0 {
			free++
		}
	}
	if free > 0 {
		return fmt.Sprintf("%d of %d items have no child", free, len(items))
	}
	for item, all := range l.running {
		if !items[item] {
			return fmt.Sprintf("%s runs and is not in the workload", item)
		}
		if len(all) != 1 {
			return fmt.Sprintf("%s has the children %v", item, all)
		}
		if _, ok := loads[all[0].proc]; !ok || !l.alive(all[0]) {
			return fmt.Sprintf("%s has a child that is dead, or of a dead member: %v", item, all)
		}
		loads[all[0].proc]++
	}
	if counts := slices.Collect(maps.Values(loads)); slices.Max(counts)-slices.Min(counts) > 1 {
		return fmt.Sprintf("the loads are uneven: %v", loads)
	}
	return ""
}

// judge has the history checked as far as it goes; calm is when the last faults were over, zero if
// some are not.
func (l *ledger) judge(calm time.Time, spread int) history.Report {
	// what was begun before its process stood still is heard of later
	events := history.Merge(l.history.Events())
	now := time.Now()
	if !calm.IsZero() {
		mark := history.Event{At: calm, Verb: history.Calm, For: now.Sub(calm), Spread: spread}
		// The checker judges at the first event after the bound, and there is none to come that
		// says anything new.
		events = history.Merge(append(events, mark, history.Event{At: now.Add(time.Microsecond),
			Verb: history.Close}))
	}
	return history.Check(events, history.Options{})
}

func TestARemovedItemRunsOnlyAsLongAsItsChildLives(t *testing.T) {
	t.Parallel()
	born := uint64(1)
	l := newLedger()
	l.born = func(int) uint64 { return born }
	l.add(history.Boot, "m1#1")
	l.line("start a 5 100 m1#1 0")
	if why := l.unlike(nil, []string{"m1#1"}); !strings.Contains(why, "not in the workload") {
		t.Errorf("a child of a removed item lives: %q", why)
	}
	born = 0
	if why := l.unlike(nil, []string{"m1#1"}); why != "" {
		t.Errorf("it was killed: %q", why)
	}
}

func TestTheLedgerSeesTwoAtOnceAndTellsTheKilledFromTheLiving(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, lines string
		fault       string // of the ledger
		breach      string // of the history
	}{
		{name: "handed over", lines: "start a 5 100 m1#1 0|stop a 5 100 m1#1|start a 6 101 m2#1 0"},
		{name: "killed, so it said nothing",
			lines: "start a 5 100 m1#1 0|dies 100|start a 6 101 m2#1 0|stop a 6 101 m2#1"},
		{name: "its coordd was killed, and it stops",
			lines: "start a 5 100 m1#1 0|dead m1#1|stop a 5 100 m1#1|start a 6 101 m2#1 0|" +
				"end m1#1"},
		{name: "its coordd was killed, and so was it, unheard",
			lines: "start a 5 100 m1#1 0|dead m1#1|dies 100|start a 6 101 m2#1 0|end m1#1"},
		{name: "it outlives its coordd",
			lines: "start a 5 100 m1#1 0|dead m1#1|start a 6 101 m2#1 99|stop a 5 100 m1#1|lock " +
				"a 6 101 m2#1",
			fault: "is at work", breach: "I1"},
		{name: "told to stop before it had started",
			lines: "stop a 5 100 m1#1|start a 6 101 m2#1 0"},
		{name: "killed on waking, so it said nothing",
			lines: "start a 5 100 m1#1 0|freeze m1#1|start a 6 101 m2#1 99|thaw m1#1|dies " +
				"100|lock a 6 101 m2#1|stop a 6 101 m2#1"},
		{name: "locked",
			lines: "start a 5 100 m1#1 0|start a 6 101 m2#1 99|stop a 5 100 m1#1|stop a 6 101 m2#1",
			fault: "is at work", breach: "I1"},
		{name: "waited for the lock, and alive",
			lines: "start a 5 100 m1#1 0|freeze m1#1|start a 6 101 m2#1 99|start a 7 102 m3#1 " +
				"0|stop a 6 101 m2#1|stop a 7 102 m3#1",
			fault: "is at work", breach: "I1"},
		{name: "locked by nobody known", lines: "start a 5 100 m1#1 99", fault: "nobody is known"},
		{name: "the owner stands still",
			lines: "start a 5 100 m1#1 0|freeze m1#1|start a 6 101 m2#1 99|thaw m1#1|stop a 5 " +
				"100 m1#1|stop a 6 101 m2#1"},
		{name: "it stood still and has the higher token",
			lines: "start a 7 100 m1#1 0|freeze m1#1|start a 6 101 m2#1 99|thaw m1#1|stop a 7 " +
				"100 m1#1|stop a 6 101 m2#1",
			breach: "I2"},
		{name: "it has just been woken",
			lines: "start a 5 100 m1#1 0|freeze m1#1|thaw m1#1|start a 6 101 m2#1 99|dies " +
				"100|lock a 6 101 m2#1|stop a 6 101 m2#1"},
		{name: "it was woken long ago",
			lines: "start a 5 100 m1#1 0|freeze m1#1|thaw m1#1|a second|start a 6 101 m2#1 " +
				"99|stop a 5 100 m1#1|stop a 6 101 m2#1",
			fault: "is at work", breach: "I1"},
		{name: "it has just been woken and has the higher token",
			lines: "start a 7 100 m1#1 0|freeze m1#1|thaw m1#1|start a 6 101 m2#1 99|stop a 7 " +
				"100 m1#1|stop a 6 101 m2#1",
			fault: "is at work", breach: "I2"},
		{name: "killed on waking, and who waited for it as well",
			lines: "start a 5 100 m1#1 0|freeze m1#1|start a 6 101 m2#1 99|thaw m1#1|dies " +
				"100|bury|a second|dies 101|bury|start a 7 102 m3#1 0|stop a 7 102 m3#1"},
		{name: "the same, and their numbers are others' by then",
			lines: "start a 5 100 m1#1 0|freeze m1#1|start a 6 101 m2#1 99|thaw m1#1|again " +
				"100|bury|a second|again 101|bury|start a 7 102 m3#1 0|stop a 7 102 m3#1"},
		{name: "killed, and found locked by one that has not said so yet",
			lines: "start a 5 100 m1#1 0|dies 100|start a 6 101 m2#1 99|start a 7 102 m3#1 " +
				"0|stop a 7 102 m3#1|stop a 6 101 m2#1",
			fault: "nobody is known", breach: "I1"},
		{name: "buried before its last word was read",
			lines: "start a 5 100 m1#1 0|dies 100|bury|stop a 5 100 m1#1|start a 6 100 m2#1 " +
				"0|stop a 6 100 m2#1"},
		{name: "dead before its first word was read",
			lines: "dies 100|start a 5 100 m1#1 0|start a 6 101 m2#1 0|stop a 6 101 m2#1"},
		{name: "two at once, and one is killed",
			lines: "start a 5 100 m1#1 0|start a 6 101 m2#1 99|a second|dies 100|bury|lock a 6 " +
				"101 m2#1|stop a 6 101 m2#1",
			fault: "is at work", breach: "I1"},
		{name: "it stood still between the lock and its word",
			lines: "born 100 5|freeze m1#1|start a 6 101 m2#1 99|thaw m1#1|start a 5 100 m1#1 " +
				"0|dies 100|bury|lock a 6 101 m2#1|stop a 6 101 m2#1"},
		{name: "the same, and it is dead when its word is read",
			lines: "born 100 5|freeze m1#1|start a 6 101 m2#1 99|thaw m1#1|dies 100|start a 5 " +
				"100 m1#1 0|lock a 6 101 m2#1|stop a 6 101 m2#1"},
		{name: "the same, and it goes on",
			lines: "born 100 5|freeze m1#1|start a 6 101 m2#1 99|thaw m1#1|start a 5 100 m1#1 " +
				"0|a second|stop a 5 100 m1#1|lock a 6 101 m2#1|stop a 6 101 m2#1",
			breach: "I1"},
		{name: "begun once it was woken",
			lines: "born 100 15|freeze m1#1|start a 6 101 m2#1 0|thaw m1#1|start a 5 100 m1#1 " +
				"99|stop a 5 100 m1#1|stop a 6 101 m2#1",
			fault: "is at work", breach: "I2"},
		{name: "the token falls",
			lines: "start a 6 100 m1#1 0|stop a 6 100 m1#1|start a 5 101 m2#1 0", breach: "I2"},
		{name: "nonsense", lines: "begin a 5 100 m1#1", fault: "no work writes"},
		{name: "half a line", lines: "start a 5 100", fault: "no work writes"},
		{name: "no token", lines: "start a 0 100 m1#1 0", fault: "no work writes"},
	} {
		l := newLedger()
		born := map[int]uint64{}
		l.clock = func() uint64 { return 10 }
		l.born = func(pid int) uint64 {
			if b, ok := born[pid]; ok {
				return b
			}
			return 1
		}
		synctest.Test(t, func(*testing.T) { // in which all of it takes as long as it says
			l.add(history.Boot, "m1#1")
			l.add(history.Boot, "m2#1")
			l.add(history.Boot, "m3#1")
			for line := range strings.SplitSeq(c.lines, "|") {
				time.Sleep(time.Millisecond) // stamps that differ: overlaps have a length
				switch verb, proc, _ := strings.Cut(line, " "); verb {
				case "freeze", "thaw", "dead", "end":
					l.add(history.Verb(verb), proc)
				case "a":
					time.Sleep(time.Second)
				case "dies", "again", "born":
					// it is gone; another process has its number; it begins at a time (a freeze is
					// at 10)
					pid, at, _ := strings.Cut(proc, " ")
					number, _ := strconv.Atoi(pid)
					began, _ := strconv.ParseUint(at, 10, 64)
					born[number] = map[string]uint64{"dies": 0, "again": 2, "born": began}[verb]
				case "bury":
					l.bury()
				default:
					l.line(line)
				}
			}
		})
		if got := strings.Join(l.faults, "; "); c.fault == "" && got != "" ||
			!strings.Contains(got, c.fault) {
			t.Errorf("%s: the ledger says %q, not %q", c.name, got, c.fault)
		}
		report := l.judge(time.Time{}, 0)
		got := ""
		if len(report.Breaches) > 0 {
			got = report.Breaches[0].Rule
		}
		if got != c.breach {
			t.Errorf("%s: the history breaks %q, not %q:\n%s", c.name, got, c.breach, report)
		}
	}
}
