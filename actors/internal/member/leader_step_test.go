package member

import (
	"testing"
	"time"

	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

func TestTheLeaderTrackerDecidesByLeaseKeyAndEpoch(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	key := func(session string, modified, index uint64) LeaderKey {
		return LeaderKey{Known: true, Found: true, View: 2, Index: index,
			Entry: store.Entry{Session: session, ModifyIndex: modified}}
	}
	mine, free := key("s", 10, 10), LeaderKey{Known: true, View: 2, Index: 12}
	leads := messages.Leadership{Role: messages.Leading, Session: "s", Epoch: 10}
	for name, c := range map[string]struct {
		f    leaderFacts
		want leaderStep
		lost bool
	}{
		"no lease": {f: leaderFacts{key: mine, was: leads}, want: stepUncertain},
		"another session": {f: leaderFacts{lease: true, key: mine,
			was: messages.Leadership{Role: messages.Leading, Session: "old"}}, want: stepUncertain},
		"an older view": {f: leaderFacts{lease: true, key: free, was: leads, sent: 2},
			want: stepWait},
		"leads on": {f: leaderFacts{lease: true, key: mine, was: leads}, want: stepLead},
		"touched": {f: leaderFacts{lease: true, key: key("s", 11, 11), was: leads},
			want: stepTouched},
		"behind": {f: leaderFacts{lease: true, key: key("s", 9, 9), was: leads},
			want: stepBehind},
		"behind for longer": {f: leaderFacts{lease: true, key: key("s", 9, 9), was: leads,
			behind: 2, behindAt: now.Add(time.Millisecond - behindLimit)}, want: stepBehind},
		"behind for too long": {f: leaderFacts{lease: true, key: key("s", 9, 9), was: leads,
			behind: 2, behindAt: now.Add(-behindLimit)}, want: stepForgotten},
		"another is behind": {f: leaderFacts{lease: true, key: key("s", 9, 9), was: leads,
			behind: 1, behindAt: now.Add(-behindLimit)}, want: stepBehind},
		"deleted": {f: leaderFacts{lease: true, member: true, key: free, was: leads},
			want: stepCampaign, lost: true},
		"taken": {f: leaderFacts{lease: true, member: true, key: key("x", 12, 12),
			was: leads}, want: stepFollow, lost: true},
		"lost by no member": {f: leaderFacts{lease: true, key: free, was: leads},
			want: stepVacant, lost: true},
		"nothing known": {f: leaderFacts{lease: true, member: true}, want: stepWait},
		"another leads": {f: leaderFacts{lease: true, member: true, key: key("x", 12, 12)},
			want: stepFollow},
		"no lock on the key": {f: leaderFacts{lease: true, member: true, key: key("", 12, 12)},
			want: stepCampaign},
		"its own lock": {f: leaderFacts{lease: true, member: true, key: mine},
			want: stepCampaign},
		"not registered": {f: leaderFacts{lease: true, key: free}, want: stepVacant},
		"on its way out": {f: leaderFacts{lease: true, member: true, leaving: true, key: free},
			want: stepVacant},
		"on its way out, with no lock on the key": {f: leaderFacts{lease: true, member: true,
			leaving: true, key: key("", 12, 12)}, want: stepVacant},
		"on its way out, with its own lock": {f: leaderFacts{lease: true, member: true,
			leaving: true, key: mine}, want: stepCampaign},
		"on its way out, leads on": {f: leaderFacts{lease: true, member: true, leaving: true,
			key: mine, was: leads}, want: stepLead},
		"nobody leads": {f: leaderFacts{lease: true, member: true, key: free},
			want: stepCampaign},
	} {
		t.Run(name, func(t *testing.T) {
			c.f.now, c.f.session = now, "s"
			if do, lost := c.f.next(); do != c.want || lost != c.lost {
				t.Errorf("next: %v, lost %v; want %v, %v", do, lost, c.want, c.lost)
			}
		})
	}
}
