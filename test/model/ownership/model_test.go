package ownership

import (
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/test/model"
)

// bounds are those within which rules are left out. The protocol itself has to hold within all of
// them.
var bounds = []Bound{
	{Name: "one process, an early end",
		A: 1, B: 1, Steady: true, Sessions: 1, TTL: 3, Slots: 1,
		Faults: faults{EarlyEnd: 1, Replies: 1}},
	{Name: "one process, a late write",
		A: 1, B: 1, Steady: true, Sessions: 1, TTL: 2, Slots: 1,
		Faults: faults{Late: 1, Moves: 3}},
	{Name: "one process, a copied write",
		A: 1, B: 1, Steady: true, Sessions: 1, TTL: 2, Slots: 1,
		Faults: faults{Copies: 1, Moves: 1}},
	{Name: "one process, a server that falls behind",
		A: 1, B: 1, Steady: true, Sessions: 1, TTL: 2, Slots: 1,
		Faults: faults{Past: 1, Moves: 1}},
	{Name: "copies alone",
		A: 1, B: 1, Steady: true, Sessions: 1, TTL: 2, Slots: 1,
		Faults: faults{Copies: 1}},
	{Name: "two sequence keys",
		A: 1, B: 1, Steady: true, Sessions: 1, TTL: 2, Slots: 2,
		Faults: faults{Copies: 1, Deletes: 1}},
	{Name: "two late writes",
		A: 1, B: 1, Steady: true, Sessions: 1, TTL: 2, Slots: 1,
		Faults: faults{Late: 2}},
	{Name: "a successor",
		A: 2, B: 1, Steady: true, Sessions: 1, TTL: 2, Slots: 1,
		Faults: faults{EarlyEnd: 1}},
	{Name: "a successor, a move",
		A: 2, B: 1, Steady: true, Sessions: 1, TTL: 2, Slots: 1,
		Faults: faults{EarlyEnd: 1, Moves: 1}},
	{Name: "a successor, a crash",
		A: 2, B: 1, Steady: true, Sessions: 1, TTL: 2, Slots: 1,
		Faults: faults{EarlyEnd: 1, Crashes: 1}},
	{Name: "a successor, a late write",
		A: 2, B: 1, Steady: true, Sessions: 1, TTL: 2, Slots: 1,
		Faults: faults{EarlyEnd: 1, Late: 1}},
	{Name: "a successor, goodbyes",
		A: 2, B: 1, Steady: true, Sessions: 1, TTL: 2, Slots: 1,
		Faults: faults{Leaves: 1, Crashes: 1, Late: 1}},
	{Name: "a successor that leaves while it waits",
		A: 2, B: 1, Steady: true, Sessions: 1, TTL: 2, Slots: 1,
		Faults: faults{EarlyEnd: 1, Leaves: 1}},
	{Name: "a successor, a stranger",
		A: 2, B: 1, Steady: true, Sessions: 1, TTL: 2, Slots: 1,
		Faults: faults{Deletes: 1, Leaves: 1, Copies: 1}},
	{Name: "a predecessor with a longer TTL",
		A: 2, B: 1, Steady: true, Sessions: 1, TTL: 2, LongTTL: 4, Slots: 1,
		Faults: faults{EarlyEnd: 1, Crashes: 1}},
	{Name: "two leaders, two early ends",
		A: 2, B: 1, Steady: true, Sessions: 1, TTL: 2, Slots: 1,
		Faults: faults{EarlyEnd: 2, Takes: 1, Notes: 1}},
	{Name: "two leaders, a late write",
		A: 1, B: 1, Steady: true, Sessions: 1, TTL: 2, Slots: 1,
		Faults: faults{Takes: 1, Late: 1, Copies: 1, Moves: 1}},
}

// large are explored by make model, with the rules that need so much.
var large = []Bound{
	{Name: "a chain of three",
		A: 3, B: 1, Steady: true, Sessions: 1, TTL: 2, Slots: 1,
		Faults: faults{EarlyEnd: 1, Crashes: 1}},
	{Name: "a chain of three, a late write",
		A: 3, B: 1, Steady: true, Sessions: 1, TTL: 2, Slots: 1,
		Faults: faults{EarlyEnd: 2, Crashes: 2, Late: 1}},
	{Name: "two sessions each, a late write",
		A: 2, B: 1, Steady: true, Sessions: 2, TTL: 1, Slots: 1,
		Faults: faults{EarlyEnd: 2, Late: 1}},
	{Name: "two sequence keys, everything about writes",
		A: 2, B: 1, Steady: true, Sessions: 1, TTL: 2, Slots: 2,
		Faults: faults{EarlyEnd: 2, Late: 1, Copies: 1, Deletes: 1, Moves: 1}},
	{Name: "both members have troubles",
		A: 1, B: 1, Sessions: 1, TTL: 2, Slots: 1,
		Faults: faults{EarlyEnd: 1, Crashes: 1, Takes: 1, Moves: 1}},
	{Name: "both have a successor",
		A: 2, B: 2, Sessions: 1, TTL: 1, Slots: 1,
		Faults: faults{EarlyEnd: 1, Moves: 1}},
	{Name: "all about writes and leaders once",
		A: 2, B: 1, Steady: true, Sessions: 1, TTL: 2, Slots: 1,
		Faults: faults{EarlyEnd: 1, Crashes: 1, Late: 1, Copies: 1, Moves: 1, Takes: 1}},
	{Name: "a chain of three, goodbyes and a stranger",
		A: 3, B: 1, Steady: true, Sessions: 1, TTL: 1, Slots: 1,
		Faults: faults{EarlyEnd: 1, Crashes: 1, Leaves: 1, Deletes: 1}},
	{Name: "two sessions each, a server that falls behind",
		A: 2, B: 1, Steady: true, Sessions: 2, TTL: 1, Slots: 1,
		Faults: faults{EarlyEnd: 1, Past: 1, Moves: 2, Late: 1}},
	{Name: "two sessions each, three leaders, graces handed on",
		A: 2, B: 1, Steady: true, Sessions: 2, TTL: 2, Slots: 1,
		Faults: faults{EarlyEnd: 2, Takes: 2, Notes: 2}},
}

// worst are the breaches that stories are wanted of, unless the rule is about another.
var worst = []string{breaches[twoOwners], breaches[twoKeys], breaches[tokenFell]}

const (
	onlyTwice = "a write takes effect twice"
	theRecord = "the look, as work starts, whether the record is still this session's"
)

var omissions = []model.Omission{
	{Rules: "no-lease", Bound: "one process, an early end"},
	{Rules: "lease-from-reply", Bound: "one process, an early end"},
	{Rules: "renewal-unconfirmed", Bound: "one process, an early end"},
	{Rules: "start-unchecked+not-addressed", Bound: "a successor",
		Because: "the confirmed lease, and the grace that the others wait for from the " +
			"session's end"},
	{Rules: "not-addressed+start-unchecked", Bound: "a successor", Because: theRecord},
	{Rules: "stale-view", Bound: "a successor"},
	{Rules: "token-of-key-alone", Bound: "a successor"},
	{Rules: "releases-forgotten", Bound: "one process, a server that falls behind"},
	{Rules: "release-before-stop", Bound: "one process, a late write"},
	{Rules: "release-unregistered", Bound: "a successor, a move"},
	{Rules: "release-any-index+acks-unconditional", Bound: "one process, a late write",
		Because: "the index of the ack, which every release moves"},
	{Rules: "acks-unconditional+release-any-index", Bound: "one process, a late write",
		Because: "the index of the key, and the check of the record's session"},
	{Rules: "inherited-started-early", Bound: "a successor"},
	{Rules: "inherited-released-early", Bound: "a successor, a move"},
	{Rules: "clear-not-chained", Bound: "a chain of three"},
	{Rules: "own-ttl-only", Bound: "a predecessor with a longer TTL"},
	{Rules: "wait-noted-later", Bound: "two sessions each, a late write"},
	{Rules: "register-over-living", Bound: "a successor, a stranger"},
	{Rules: "register-any-ack", Bound: "a chain of three, a late write"},
	{Rules: "join-without-sequence", Bound: "a successor, a stranger", Breach: []string{onlyTwice}},
	{Rules: "goodbye-unchecked", Bound: "a successor, goodbyes"},
	{Rules: "goodbye-not-clear", Bound: "a successor, a crash"},
	{Rules: "goodbye-before-stop", Bound: "a successor, a crash"},
	{Rules: "goodbye-for-frozen+start-unchecked", Bound: "one process, an early end",
		Because: theRecord},
	{Rules: "stopped-before-the-work", Bound: "a successor, goodbyes"},
	{Rules: "rest-cut-short", Bound: "a successor that leaves while it waits"},
	{Rules: "no-guard", Bound: "two leaders, a late write",
		Breach: []string{breaches[deposedWrote]}},
	{Rules: "no-guard+leader-without-sequence", Bound: "two late writes",
		Because: "the sequence keys, which the next leader moves before it reads"},
	{Rules: "no-new-epoch+leader-without-sequence", Bound: "two late writes",
		Because: "the sequence keys: they are moved before all is read anew"},
	{Rules: "leader-without-sequence", Bound: "one process, a copied write"},
	{Rules: "refusal-not-final", Bound: "two sequence keys"},
	{Rules: "partial-read", Bound: "copies alone"},
	{Rules: "no-receiver-check", Bound: "a successor, a late write",
		Breach: []string{breaches[stuckKey]}},
	{Rules: "no-create-only+leader-without-sequence", Bound: "copies alone",
		Breach:  []string{onlyTwice},
		Because: "the guard and the sequence keys: a leader knows each key since its last doubt"},
	{Rules: "revoke-without-index+leader-without-sequence", Bound: "one process, a copied write",
		Breach: []string{onlyTwice}, Because: "the guard and the sequence keys"},
	{Rules: "reap-in-two-steps", Bound: "one process, an early end"},
	{Rules: "reap-without-record-check+reap-without-ack-check", Bound: "a successor",
		Because: "the check of its ack, which registering raises in the same transaction"},
	{Rules: "reap-without-ack-check", Bound: "a successor"},
	{Rules: "no-grace", Bound: "one process, an early end"},
	{Rules: "gone-by-record-alone", Bound: "a successor, a stranger"},
	{Rules: "another-absence", Bound: "two leaders, two early ends"},
}

func TestOneItemHasOneOwner(t *testing.T) {
	all := bounds
	if *model.Whole {
		all = slices.Concat(bounds, large)
	}
	var sum model.Sum
	t.Run("bounds", func(t *testing.T) {
		for _, b := range all {
			t.Run(b.Name, func(t *testing.T) {
				t.Parallel()
				sum.Holds(t, model.Explore((&Model{bound: b}).System(), 0))
			})
		}
	})
	t.Logf("one item has one owner: %v", &sum)
	sum.Reached(t, verbNames[:], kinds[:], int(sends), int(arrives))
}

// What tidy forgets is said to make no difference. Where nothing is forgotten the protocol has to
// hold as well, and no story may be shorter. (One may be longer: what a process cannot but see
// takes a step.)
func TestWhatStatesDoNotSayMakesNoDifference(t *testing.T) {
	all := bounds[:7] // of one process: a successor makes for thirty times as many states
	if *model.Whole {
		all = bounds
	}
	var sum model.Sum
	t.Run("bounds", func(t *testing.T) {
		for _, b := range all {
			t.Run(b.Name, func(t *testing.T) {
				t.Parallel()
				sum.Holds(t, model.Explore((&Model{bound: b, plain: true}).System(), 0))
			})
		}
	})
	t.Logf("with nothing forgotten: %v", &sum)
	for _, o := range omissions {
		at := slices.IndexFunc(all, func(b Bound) bool { return b.Name == o.Bound })
		if at < 0 {
			continue
		}
		t.Run(o.Rules, func(t *testing.T) {
			t.Parallel()
			tidy, plain := brokenBy(all[at], o, false), brokenBy(all[at], o, true)
			if plain.Breach == "" || len(plain.Story) < len(tidy.Story) {
				t.Errorf("%d steps to a breach, with nothing forgotten%s", len(tidy.Story),
					plain.Lines())
			}
		})
	}
}

// brokenBy explores without all rules of o.
func brokenBy(b Bound, o model.Omission, plain bool) model.Result {
	return model.Explore(without(b, plain, strings.Split(o.Rules, "+")).System().Only(wanted(o)...),
		0)
}

func without(b Bound, plain bool, rules []string) *Model {
	m := &Model{bound: b, plain: plain}
	for _, rule := range rules {
		m.broken[slices.Index(ruleNames[:], rule)] = true
	}
	return m
}

func wanted(o model.Omission) []string {
	if len(o.Breach) == 0 {
		return worst
	}
	return o.Breach
}

func TestEachRuleLeftOutHasItsStory(t *testing.T) {
	all, told := slices.Concat(bounds, large), map[string]bool{}
	for _, o := range omissions {
		rules := o.First()
		told[rules] = true
		at := slices.IndexFunc(all, func(b Bound) bool { return b.Name == o.Bound })
		if at >= len(bounds) && !*model.Whole {
			continue // make model tells it
		}
		t.Run(o.Rules, func(t *testing.T) {
			t.Parallel()
			o.Check(t, func(rules []string) model.Result {
				return model.Explore(without(all[at], false, rules).System().Only(wanted(o)...), 0)
			})
		})
	}
	for _, name := range ruleNames {
		if !told[name] {
			t.Errorf("nothing says what comes of %s", name)
		}
	}
}
