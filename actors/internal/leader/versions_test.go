package leader

import (
	"slices"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/messages"
)

func TestTheNewestVersionIsTheOneThatCameLast(t *testing.T) {
	type member = facts.Member
	for name, test := range map[string]struct {
		members map[string]member
		want    string
	}{
		"nobody is there": {nil, ""},
		"nobody says any": {map[string]member{"n1": {CreateIndex: 1}}, ""},
		"one for all":     {map[string]member{"n1": {WorkVersion: "1", CreateIndex: 1}}, "1"},
		"a rollout": {map[string]member{"n1": {WorkVersion: "9", CreateIndex: 1},
			"n2": {WorkVersion: "10", CreateIndex: 7}}, "10"},
		"a rollout back": {map[string]member{"n1": {WorkVersion: "2", CreateIndex: 1},
			"n2": {WorkVersion: "1", CreateIndex: 7}}, "1"},
		"by an older coordd": {map[string]member{"n1": {WorkVersion: "1", CreateIndex: 1},
			"n2": {CreateIndex: 7}}, "1"},
		"an older member is restarted as it was": {map[string]member{
			"n1": {WorkVersion: "1", CreateIndex: 1}, "n2": {WorkVersion: "2", CreateIndex: 5},
			"n3": {WorkVersion: "1", CreateIndex: 9}}, "2"},
		"one that runs no items, one that goes, and one that cannot be read": {map[string]member{
			"n1": {WorkVersion: "1", CreateIndex: 1},
			"n2": {WorkVersion: "2", CreateIndex: 7, Idle: true},
			"n3": {WorkVersion: "3", CreateIndex: 8, Leaving: true},
			"n4": {WorkVersion: "4", CreateIndex: 9, Unreadable: true}}, "1"},
	} {
		members := messages.TableOf(test.members)
		if got := newest(members, func(i int) bool {
			_, m := members.At(i)
			return !m.Leaving
		}); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestInARolloutItemsGoToTheNewestVersionAndSayWhy(t *testing.T) {
	of := func(version string, registered uint64) func(*facts.Member) {
		return func(m *facts.Member) { m.WorkVersion, m.CreateIndex = version, registered }
	}
	rolling := func(s *inputs) {
		s.member("n1", of("1", 10))
		s.member("n2", of("1", 11))
		s.member("n3", of("2", 40))
	}
	for name, test := range map[string]struct {
		change func(*inputs)
		want   []string
		why    string
	}{
		"an older member goes": {func(s *inputs) {
			s.has("n1", "a")
			s.has("n2", "b~", "c~")
			s.has("n3", "d")
			s.member("n2", func(m *facts.Member) { of("1", 11)(m); m.Leaving = true })
			s.assigned.drop("n2", "b")
		}, []string{"grant b n3"}, "new, prefers version 2"},
		"an older member is lost": {func(s *inputs) {
			s.has("n1", "a")
			s.has("n3", "b")
			s.has("n2", "c")
			s.has("n4", "d")
			s.vanished("n4", time.Minute)
		}, []string{"reap d n4 n3"}, "takeover, prefers version 2"},
		"all are at rest": {func(s *inputs) {
			s.has("n1", "a")
			s.has("n2", "b")
			s.has("n3", "c", "d")
		}, nil, ""},
		"a member of an unknown version is no newer one": {func(s *inputs) {
			s.has("n1", "a")
			s.has("n2", "b", "c")
			s.member("n3", of("", 40))
		}, []string{"grant d n3"}, "new"},
	} {
		d := inputsOf(t, rolling, test.change).plan()
		if got := d.words(); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
			continue
		}
		for _, u := range d.orders {
			if u.cause != test.why {
				t.Errorf("%s: because of %q, want %q", name, u.cause, test.why)
			}
		}
	}
}
