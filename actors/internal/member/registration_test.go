package member

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

func TestARegisteredRecordIsJudgedByAViewThatIsNewer(t *testing.T) {
	was := facts.Membership{Phase: facts.Registered, Session: "s", Index: 10, Written: 12}
	record := func(session, value string, modified, index uint64) OwnRecord {
		return OwnRecord{Known: true, Found: true, View: 2, Index: index,
			Entry: store.Entry{Session: session, Value: []byte(value), ModifyIndex: modified}}
	}
	for name, c := range map[string]struct {
		record OwnRecord
		sent   uint64
		want   recordStep
	}{
		"nothing is known":          {OwnRecord{}, 0, recordStands},
		"as it was written":         {record("s", "mine", 12, 12), 1, recordStands},
		"a view of before":          {record("x", "mine", 9, 99), 2, recordStands},
		"older than the record":     {record("", "", 0, 9), 1, recordBehind},
		"as old as the record":      {record("s", "mine", 10, 10), 1, recordStands},
		"deleted":                   {OwnRecord{Known: true, View: 2, Index: 13}, 1, recordLost},
		"taken":                     {record("x", "mine", 13, 13), 1, recordLost},
		"released":                  {record("", "mine", 13, 13), 1, recordLost},
		"overwritten":               {record("s", "theirs", 13, 13), 1, recordOverwritten},
		"overwritten with the same": {record("s", "mine", 13, 13), 1, recordStands},
		"an earlier value of ours":  {record("s", "earlier", 11, 13), 1, recordStands},
		"ours, and no longer right": {record("s", "earlier", 12, 12), 1, recordOutdated},
	} {
		f := recordFacts{session: "s", was: was, record: c.record, sent: c.sent,
			value: []byte("mine")}
		if got := f.next(); got != c.want {
			t.Errorf("%s: %v; want %v", name, got, c.want)
		}
	}
}

func TestInheritedItemsWaitUnlessNoEarlierLeaseCanBe(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	const ttl, longer = 10 * time.Second, 30 * time.Second
	at := func(d time.Duration) time.Time { return now.Add(d) }
	own, other := protocol.Process{Instance: "me"}, protocol.Process{Instance: "x"}
	acked := func(a protocol.Ack) lastAck { return lastAck{found: true, index: 7, ack: a} }
	for name, c := range map[string]struct {
		inheritance
		want time.Duration // 0: at once
	}{
		"no ack and no items": {inheritance{}, 0},
		"no ack and items":    {inheritance{keys: true}, ttl},
		"no ack, items, and a sentinel with a longer lease": {inheritance{keys: true,
			old: lastAck{sentinel: longer}}, longer},
		"an unreadable ack": {inheritance{old: lastAck{found: true, bad: true}}, ttl},
		"an unreadable ack, and a sentinel with a longer lease": {inheritance{old: lastAck{
			found: true, bad: true, sentinel: longer}}, longer},
		"an unreadable ack with a TTL": {inheritance{old: lastAck{found: true, bad: true,
			ack: protocol.Ack{TTL: longer, Clear: true, Stopped: true}}}, longer},
		"all had stopped": {inheritance{old: acked(protocol.Ack{By: other, Clear: true,
			Stopped: true})}, 0},
		"all had stopped but what it had inherited": {inheritance{old: acked(protocol.Ack{
			By: other, Stopped: true})}, ttl},
		"another process, of which nothing is known": {inheritance{old: acked(protocol.Ack{
			By: other, Clear: true})}, ttl},
		"another process with a longer lease": {inheritance{old: acked(protocol.Ack{By: other,
			Clear: true, TTL: longer})}, longer},
		"another process with a shorter lease": {inheritance{old: acked(protocol.Ack{By: other,
			Clear: true, TTL: time.Second})}, time.Second},
		"a dead process": {inheritance{liveness: protocol.Dead, old: acked(protocol.Ack{By: other,
			Clear: true, TTL: longer})}, 0},
		"a dead process that was waiting itself": {inheritance{liveness: protocol.Dead,
			old: acked(protocol.Ack{By: other, TTL: longer})}, longer},
		"a living process": {inheritance{liveness: protocol.Alive, old: acked(protocol.Ack{
			By: other, Clear: true})}, ttl},
		"this process, clear": {inheritance{old: acked(protocol.Ack{By: own, Clear: true})}, 0},
		"this process, and its wait is not known": {inheritance{old: acked(protocol.Ack{
			By: own})}, ttl},
		"this process, still waiting": {inheritance{clearAt: at(time.Second),
			old: acked(protocol.Ack{By: own})}, time.Second},
		"this process, at the end of its wait": {inheritance{clearAt: now,
			old: acked(protocol.Ack{By: own})}, 0},
		"an instance without a name": {inheritance{instance: "-", clearAt: now,
			old: acked(protocol.Ack{})}, ttl},
	} {
		i := c.inheritance
		i.now, i.ttl = now, ttl
		switch i.instance {
		case "":
			i.instance = "me"
		case "-":
			i.instance = ""
		}
		want := time.Time{}
		if c.want > 0 {
			want = at(c.want)
		}
		if got := i.until(); !got.Equal(want) {
			t.Errorf("%s: %v; want %v", name, got.Sub(now), c.want)
		}
	}
}

// Each registration has an operation that its own success makes false: a copy of it does nothing.
func TestARegistrationIsConditionedByWhatItChanges(t *testing.T) {
	keys, err := protocol.KeysOf("s")
	if err != nil {
		t.Fatal(err)
	}
	record, ack, sentinel, join := keys.Member("m"), keys.Ack("m"), keys.AssignmentsOf("m"),
		joinKey(keys, "m")
	for name, c := range map[string]struct {
		r    registration
		want []string
	}{
		"nothing is there": {registration{joined: 4}, []string{"check-not-exists " + record,
			"lock " + record, "cas " + ack, "set " + sentinel, "cas " + join}},
		"a record that nobody holds": {registration{record: store.Entry{ModifyIndex: 5}}, []string{
			"delete-cas " + record, "lock " + record, "cas " + ack, "set " + sentinel,
			"cas " + join}},
		"an ack": {registration{old: lastAck{found: true, index: 6}}, []string{
			"check-not-exists " + record, "lock " + record, "cas " + ack, "set " + sentinel}},
		"a record that nobody holds and an ack": {registration{record: store.Entry{ModifyIndex: 5},
			old: lastAck{found: true, index: 6}}, []string{"delete-cas " + record,
			"lock " + record, "cas " + ack, "set " + sentinel}},
	} {
		c.r.keys, c.r.id, c.r.session = keys, "m", "session"
		var got []string
		for _, op := range c.r.ops() {
			got = append(got, fmt.Sprint(op))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%q; want\n%q", name, got, c.want)
		}
	}
}

// A lock-delay may be another member's, and longer than this one's.
func TestALockIsTriedMoreSeldomTheLongerItIsRefused(t *testing.T) {
	for _, delay := range []time.Duration{time.Millisecond, time.Second, time.Minute} {
		tries, refused := 0, time.Duration(0)
		for last := LockPoll(delay, 0); refused < time.Minute; tries++ {
			poll := LockPoll(delay, refused)
			if poll < last || poll < 50*time.Millisecond || poll > time.Second {
				t.Errorf("lock-delay %v, refused for %v: tried again after %v, and after %v before",
					delay, refused, poll, last)
			}
			last, refused = poll, refused+poll
		}
		if tries > 80 {
			t.Errorf("lock-delay %v: %d tries in a minute", delay, tries)
		}
	}
}

func TestWhoHoldsAnIDIsEndedRefusedOrWaitedFor(t *testing.T) {
	own := protocol.Process{Instance: "me"}
	for name, c := range map[string]struct {
		h        holder
		liveness protocol.Liveness
		want     holderStep
	}{
		"a dead process":             {holder{named: true}, protocol.Dead, endItsSession},
		"a living process":           {holder{named: true}, protocol.Alive, refuseID},
		"a process of another host":  {holder{named: true}, protocol.Unknown, waitForExpiry},
		"this process":               {holder{named: true, process: own}, protocol.Alive, endItsSession},
		"one whose work has stopped": {holder{named: true, stopped: true}, protocol.Alive, endItsSession},
		"dead, under another name":   {holder{}, protocol.Dead, waitForExpiry},
		"alive, under another name":  {holder{}, protocol.Alive, refuseID},
	} {
		if got := c.h.next("me", c.liveness); got != c.want {
			t.Errorf("%s: %v; want %v", name, got, c.want)
		}
	}
	if got := (holder{named: true}).next("", protocol.Alive); got != refuseID {
		t.Errorf("two instances without names are taken for one: %v", got)
	}
}
