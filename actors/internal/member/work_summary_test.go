package member

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/messages"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// one is a member that was registered at index 100, with the item w under a key of index created.
func one(created uint64, releasing bool, held *facts.Holding, record workRecord) summaryInput {
	holdings := map[string]facts.Holding{}
	if held != nil {
		holdings["w"] = *held
	}
	return summaryInput{
		now: noon, since: map[string]time.Time{},
		member: facts.Membership{Phase: facts.Registered, Session: "s", Index: 100},
		view: facts.Assignments{Index: 200, Items: messages.TableOf(
			map[string]facts.Assignment{"w": {CreateIndex: created, Releasing: releasing}})},
		holdings: facts.Holdings{Items: messages.TableOf(holdings)},
		record:   func(string) workRecord { return record }, stop: 20 * time.Second,
	}
}

func TestASummarySaysWhatTheWorkDoes(t *testing.T) {
	held := func(phase facts.WorkPhase) *facts.Holding {
		return &facts.Holding{Phase: phase, Grant: 150, Since: noon.Add(-time.Hour)}
	}
	busy, over := held(facts.Running), held(facts.Stopped)
	begun := workRecord{begun: noon.Add(-time.Hour)}
	told := func(ago time.Duration) *facts.Holding { // to stop
		return &facts.Holding{Phase: facts.Stopping, Grant: 150, Since: noon.Add(-ago)}
	}
	reads := func(r workRecord, index uint64) workRecord {
		r.payload = &itemChanges{index: index}
		return r
	}
	idle := workRecord{}
	ran := func(inRow int, since time.Duration) workRecord { // since it ended last
		r := workRecord{restarts: 7, inRow: inRow, row: noon.Add(-time.Minute), exit: "exit code 1",
			exitAt: noon.Add(-since), next: noon.Add(time.Second)}
		return r
	}
	runs := func(r workRecord, since time.Duration) workRecord {
		r.begun, r.next = noon.Add(-since), time.Time{}
		return r
	}
	waits := func(in summaryInput) summaryInput {
		in.member.ClearAt = noon.Add(5 * time.Second)
		return in
	}
	for name, c := range map[string]struct {
		in    summaryInput
		state string
		named bool
		next  time.Duration // until time alone changes it
	}{
		"it runs":               {one(150, false, busy, begun), "running", false, 0},
		"it waits for its turn": {one(150, false, busy, idle), "starting", true, 0},
		"it has not begun":      {one(150, false, nil, idle), "starting", true, 0},
		"it was told to stop": {one(150, false, told(19*time.Second), begun), "stopping", true,
			3 * time.Second},
		"it does not stop":     {one(150, true, told(22*time.Second), begun), "stuck", true, 0},
		"it has stopped":       {one(150, false, over, idle), "stopping", true, 0},
		"it is to be released": {one(150, true, nil, idle), "stopping", true, 0},
		"a predecessor's": {waits(one(50, false, nil, idle)), "waiting", false,
			5 * time.Second},
		"granted to it newly": {waits(one(150, false, nil, idle)), "starting", true,
			5 * time.Second},
		"it pauses, twice ended":   {one(150, false, busy, ran(2, time.Second)), "starting", true, 0},
		"its payload is of later":  {one(150, false, busy, reads(begun, 160)), "running", true, 0},
		"its payload is of before": {one(150, false, busy, reads(begun, 150)), "running", false, 0},
		"it pauses, and loops": {one(150, false, busy, ran(3, time.Second)), "crash-looping", true,
			0},
		"it runs, and loops": {one(150, false, busy,
			runs(ran(3, 9*time.Second), 8*time.Second)), "crash-looping", true, 22 * time.Second},
		"it has run for long": {one(150, false, busy,
			runs(ran(3, time.Minute), 30*time.Second)), "running", true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s, next := summarise(c.in)
			if s.Counts[c.state] != 1 || len(s.Counts) != 1 || (len(s.Items) == 1) != c.named ||
				s.Upto == 0 || s.Session != "s" {
				t.Errorf("want %s, got %+v", c.state, s)
			}
			if c.named && s.Items[0].State != c.state {
				t.Errorf("named as %+v", s.Items[0])
			}
			if next.IsZero() != (c.next == 0) || c.next != 0 && next.Sub(noon) != c.next {
				t.Errorf("it changes by itself at %v, want in %v", next, c.next)
			}
			if _, err := protocol.ParseWorkSummary(s.Encode()); err != nil {
				t.Errorf("its reader refuses it: %v", err)
			}
		})
	}
}

// However much goes wrong, a summary stays small, and names what is worst.
func TestASummaryIsBounded(t *testing.T) {
	keys, holdings := map[string]facts.Assignment{}, map[string]facts.Holding{}
	for i := range 5000 {
		id := fmt.Sprintf("%0200d", i)
		keys[id] = facts.Assignment{CreateIndex: 150}
		if i%2 == 0 {
			holdings[id] = facts.Holding{Phase: facts.Running, Grant: 150}
		}
	}
	loops := workRecord{restarts: 9, inRow: 9, exit: strings.Repeat("x", protocol.MaxExitBytes)}
	s, _ := summarise(summaryInput{now: noon, since: map[string]time.Time{},
		member:   facts.Membership{Session: "s", Index: 100},
		view:     facts.Assignments{Index: 200, Items: messages.TableOf(keys)},
		holdings: facts.Holdings{Items: messages.TableOf(holdings)},
		record:   func(string) workRecord { return loops }})
	if s.Counts["crash-looping"] != 2500 || s.Counts["starting"] != 2500 {
		t.Errorf("counts %v", s.Counts)
	}
	if n := len(s.Items); n == 0 || n > protocol.MaxNamed || s.Items[n-1].State != "crash-looping" {
		t.Errorf("it names %d items, the last of them %+v", n, s.Items[n-1])
	}
	if n := len(s.Encode()); n > protocol.MaxSummaryBytes+1000 {
		t.Errorf("it has %d bytes", n)
	}
}

func TestALineOfAnErrorIsShortAndPlain(t *testing.T) {
	for _, text := range []string{"", "plain", "a\nb\tc\x1b[0m", "\xff\xfe",
		strings.Repeat("ä", 500)} {
		s := protocol.WorkSummary{Items: []protocol.WorkReport{{ID: "w", Exit: line(text)}}}
		if _, err := protocol.ParseWorkSummary(s.Encode()); err != nil {
			t.Errorf("%.20q became %q: %v", text, line(text), err)
		}
		if n := len(line(text)); n > protocol.MaxExitBytes {
			t.Errorf("%.20q became %d bytes", text, n)
		}
	}
}
