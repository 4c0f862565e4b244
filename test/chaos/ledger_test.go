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
	alive func(pid int) bool

	mu      sync.Mutex
	history *history.Recorder
	running map[string][]child // by item; more than one only when something is wrong, or stood still
	waiting map[child]bool     // those of running that do not have the item's lock
	frozen  map[string]bool    // processes that stand still, and their work with them
	woken   map[string]time.Time
	unheard map[int]bool // children that were told to stop before they said that they had started
	faults  []string
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
	return &ledger{alive: exists, history: history.NewMemory(), running: map[string][]child{}, waiting: map[child]bool{}, frozen: map[string]bool{}, woken: map[string]time.Time{}, unheard: map[int]bool{}}
}

func (l *ledger) fault(format string, args ...any) {
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

// line takes in what a child wrote: "start ITEM TOKEN PID PROC LOCK", "lock ITEM TOKEN PID PROC" or "stop ITEM TOKEN PID PROC".
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
	if err != nil || bad != nil || token == 0 || !(f[0] == "start" && len(f) == 6 || (f[0] == "stop" || f[0] == "lock") && len(f) == 5) {
		l.fault("a line that no work writes: %q", text)
		return
	}
	item, c := f[1], child{pid, f[4], token}
	known := slices.Contains(l.running[item], c)
	switch {
	case f[0] == "start":
		l.start(item, c, f[5] != strconv.Itoa(locked))
	case f[0] == "stop" && known:
		l.stop(item, c)
	case f[0] == "stop":
		l.unheard[pid] = true
	case known:
		l.hasLock(item, c)
	}
}

func (l *ledger) start(item string, c child, got bool) {
	if l.unheard[c.pid] {
		l.fault("%s: %v starts after its stop", item, c)
	}
	if got {
		l.hasLock(item, c)
	} else {
		l.waiting[c] = true
		if len(l.running[item]) == 0 {
			l.fault("%s: %v finds it locked, and nobody is known to work on it", item, c)
		}
	}
	for _, old := range l.running[item] {
		// One that has just been woken is about to be killed. Until then only its token tells that it is late, as the history says.
		late := time.Since(l.woken[old.proc]) <= history.Notice && old.token < c.token
		if !l.frozen[old.proc] && !late {
			l.fault("%s: %v begins while %v is at work", item, c, old)
		}
	}
	l.running[item] = append(l.running[item], c)
	l.history.Add(history.Event{Verb: history.Start, Proc: c.proc, Item: item, Token: c.token})
}

// hasLock ends those that had the lock before: they were killed, and so could not say it. One that only waits for the
// lock may be alive.
func (l *ledger) hasLock(item string, c child) {
	delete(l.waiting, c)
	for _, old := range slices.Clone(l.running[item]) {
		if old != c && (!l.waiting[old] || !l.alive(old.pid)) {
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
	l.history.Add(history.Event{Verb: history.Stop, Proc: c.proc, Item: item, Token: c.token})
}

// add records what happened to a process; an end takes its children with it.
func (l *ledger) add(v history.Verb, proc string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch v {
	case history.Freeze:
		l.frozen[proc] = true
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
			if c.proc == proc && l.alive(c.pid) {
				pids = append(pids, c.pid)
			}
		}
	}
	return pids
}

// unlike says what is missing to each item of the workload having one living child, and to each member having its share.
func (l *ledger) unlike(items map[string]bool, procs []string) string {
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
	for item, all := range maps.Clone(l.running) {
		if !items[item] {
			// It was killed, and could not say so, and nobody takes its lock any more.
			for _, c := range slices.Clone(all) {
				if !l.alive(c.pid) {
					l.stop(item, c)
				}
			}
			if len(l.running[item]) == 0 {
				continue
			}
			return fmt.Sprintf("%s runs and is not in the workload", item)
		}
		if len(all) != 1 {
			return fmt.Sprintf("%s has the children %v", item, all)
		}
		if _, ok := loads[all[0].proc]; !ok || !l.alive(all[0].pid) {
			return fmt.Sprintf("%s has a child that is dead, or of a dead member: %v", item, all)
		}
		loads[all[0].proc]++
	}
	if counts := slices.Collect(maps.Values(loads)); slices.Max(counts)-slices.Min(counts) > 1 {
		return fmt.Sprintf("the loads are uneven: %v", loads)
	}
	return ""
}

// judge has the history checked as far as it goes; calm is when the last faults were over, zero if some are not.
func (l *ledger) judge(calm time.Time, spread int) history.Report {
	events := l.history.Events()
	now := time.Now()
	if !calm.IsZero() {
		mark := history.Event{At: calm, Verb: history.Calm, For: now.Sub(calm), Spread: spread}
		// The checker judges at the first event after the bound, and there is none to come that says anything new.
		events = history.Merge(append(events, mark, history.Event{At: now.Add(time.Microsecond), Verb: history.Close}))
	}
	return history.Check(events, history.Options{})
}

func TestARemovedItemRunsOnlyAsLongAsItsChildLives(t *testing.T) {
	t.Parallel()
	dead := 0
	l := newLedger()
	l.alive = func(pid int) bool { return pid != dead }
	l.add(history.Boot, "m1#1")
	l.line("start a 5 100 m1#1 0")
	if why := l.unlike(nil, []string{"m1#1"}); !strings.Contains(why, "not in the workload") {
		t.Errorf("a child of a removed item lives: %q", why)
	}
	dead = 100
	if why := l.unlike(nil, []string{"m1#1"}); why != "" {
		t.Errorf("it was killed: %q", why)
	}
}

func TestTheLedgerSeesTwoAtOnceAndTellsTheKilledFromTheLiving(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, lines string
		dead        int
		fault       string // of the ledger
		breach      string // of the history
	}{
		{name: "handed over", lines: "start a 5 100 m1#1 0|stop a 5 100 m1#1|start a 6 101 m2#1 0"},
		{name: "killed, so it said nothing", lines: "start a 5 100 m1#1 0|start a 6 101 m2#1 0|stop a 6 101 m2#1", dead: 100},
		{name: "its coordd was killed, and it stops", lines: "start a 5 100 m1#1 0|dead m1#1|stop a 5 100 m1#1|start a 6 101 m2#1 0|end m1#1"},
		{name: "its coordd was killed, and so was it, unheard", lines: "start a 5 100 m1#1 0|dead m1#1|start a 6 101 m2#1 0|end m1#1", dead: 100},
		{name: "it outlives its coordd", lines: "start a 5 100 m1#1 0|dead m1#1|start a 6 101 m2#1 99|stop a 5 100 m1#1|lock a 6 101 m2#1", fault: "is at work", breach: "I1"},
		{name: "told to stop before it had started", lines: "stop a 5 100 m1#1|start a 6 101 m2#1 0"},
		{name: "killed on waking, so it said nothing", lines: "start a 5 100 m1#1 0|freeze m1#1|start a 6 101 m2#1 99|thaw m1#1|lock a 6 101 m2#1|stop a 6 101 m2#1", dead: 100},
		{name: "locked", lines: "start a 5 100 m1#1 0|start a 6 101 m2#1 99|stop a 5 100 m1#1|stop a 6 101 m2#1", fault: "is at work", breach: "I1"},
		{name: "waited for the lock, and alive", lines: "start a 5 100 m1#1 0|freeze m1#1|start a 6 101 m2#1 99|start a 7 102 m3#1 0|stop a 6 101 m2#1|stop a 7 102 m3#1", fault: "is at work", breach: "I1"},
		{name: "locked by nobody known", lines: "start a 5 100 m1#1 99", fault: "nobody is known"},
		{name: "the owner stands still", lines: "start a 5 100 m1#1 0|freeze m1#1|start a 6 101 m2#1 99|thaw m1#1|stop a 5 100 m1#1|stop a 6 101 m2#1"},
		{name: "it stood still and has the higher token", lines: "start a 7 100 m1#1 0|freeze m1#1|start a 6 101 m2#1 99|thaw m1#1|stop a 7 100 m1#1|stop a 6 101 m2#1", breach: "I2"},
		{name: "it has just been woken", lines: "start a 5 100 m1#1 0|freeze m1#1|thaw m1#1|start a 6 101 m2#1 99|lock a 6 101 m2#1|stop a 6 101 m2#1", dead: 100},
		{name: "it was woken long ago", lines: "start a 5 100 m1#1 0|freeze m1#1|thaw m1#1|a second|start a 6 101 m2#1 99|stop a 5 100 m1#1|stop a 6 101 m2#1", fault: "is at work", breach: "I1"},
		{name: "it has just been woken and has the higher token", lines: "start a 7 100 m1#1 0|freeze m1#1|thaw m1#1|start a 6 101 m2#1 99|stop a 7 100 m1#1|stop a 6 101 m2#1", fault: "is at work", breach: "I2"},
		{name: "the token falls", lines: "start a 6 100 m1#1 0|stop a 6 100 m1#1|start a 5 101 m2#1 0", breach: "I2"},
		{name: "nonsense", lines: "begin a 5 100 m1#1", fault: "no work writes"},
		{name: "half a line", lines: "start a 5 100", fault: "no work writes"},
		{name: "no token", lines: "start a 0 100 m1#1 0", fault: "no work writes"},
	} {
		l := newLedger()
		l.alive = func(pid int) bool { return pid != c.dead }
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
				default:
					l.line(line)
				}
			}
		})
		if got := strings.Join(l.faults, "; "); c.fault == "" && got != "" || !strings.Contains(got, c.fault) {
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
