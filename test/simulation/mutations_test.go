//go:build coordd_mutations

package simulation_test

import (
	"strings"
	"testing"
	"time"
)

// mutation is what the simulation has to say about one broken rule.
type mutation struct {
	name    string // two rules at once with a "+" between them
	profile string // hard, unless said
	covered string // by which other rules, when nothing breaks; empty: it must be caught
	first   uint64 // the seed that is played firstTimes before others: it noticed once; 0: none
}

var mutations = []mutation{
	{name: "no-guard"},
	{name: "lease-from-reply", profile: "skewed", first: 53},
	{name: "no-lease", first: 7},
	{name: "lease-unkept", first: 16},
	{name: "renewal-unconfirmed", profile: "relapsed", first: 9},
	{name: "not-addressed+start-unchecked", profile: "usurped", first: 4},
	{name: "inherited-started-early", profile: "usurped"},
	{name: "inherited-released-early", profile: "usurped", first: 4},
	{name: "copies-believed", profile: "usurped", first: 13},
	{name: "clear-not-chained", profile: "usurped", first: 6},
	{name: "own-ttl-only", profile: "mixed", first: 20},
	{name: "sentinel-without-lease", profile: "unacked", first: 11},
	{name: "token-of-key-alone"},
	{name: "run-not-counted"},
	{name: "prefix-without-slash", first: 11},
	{name: "release-before-stop"},
	{name: "release-without-conditions", profile: "returning"},
	{name: "releases-forgotten", profile: "recall", first: 12},
	{name: "no-grace", first: 4},
	{name: "gone-by-record-alone", first: 37},
	{name: "leader-without-sequence", profile: "doubled", first: 13},
	{name: "reap-in-two-steps", first: 6},
	{name: "reap-without-either-check", profile: "unseen"},
	{name: "doubles-placed", profile: "elders", first: 16},
	{name: "no-receiver-check+misaddressed-kept", profile: "changed"},
	{name: "goodbye-unchecked", profile: "mourned", first: 7},
	{name: "goodbye-not-clear", profile: "usurped", first: 7},
	{name: "acked-when-logged", profile: "config"},
	{name: "replay-unguarded", profile: "config"},
	{name: "unsealed", profile: "denied", first: 21},
	{name: "config-sequence-unchecked", profile: "config", first: 4},
	{name: "config-keys-unchecked", profile: "config"},
	{name: "partial-read"},
	{name: "changes-untold", profile: "fair", first: 26},
	{name: "stale-view", first: 13},
	{name: "lead-at-once"},
	{name: "lead-not-chained", profile: "usurped", first: 34},
	{name: "another-absence", profile: "again"},
	{name: "handed-over-at-once", profile: "drained", first: 22},
	{name: "hung-and-renewed", profile: "hung", first: 12},
	{name: "no-lease-enforcer", profile: "hung", first: 7},
	{name: "absences-cleared", profile: "waited", first: 18},
	{name: "waits-not-handed-on", profile: "waited", first: 64},
	{name: "doubt-begins-anew", profile: "waited", first: 7},
	{name: "no-margin", profile: "skewed", first: 7},
	{name: "quarantine-ignored", profile: "sick"},
	{name: "made-anew-ignored", profile: "remade", first: 9},
	{name: "sessions-unchecked+invalid-stops-all", profile: "aimed", first: 6},
	{name: "times-unchecked", profile: "aimed", first: 76},
	{name: "ids-unchecked", profile: "aimed", first: 10},
	{name: "deadline-fixed+payloads-by-count", profile: "laden"},

	{name: "renewal-once", profile: "gentle",
		covered: "no rule: it takes a silence and then errors, one seed in some hundred draws " +
			"both. TestARenewalWithoutAnAnswerIsNotWaitedFor in internal/store finds it"},
	{name: "no-receiver-check", profile: "changed",
		covered: "that a key that is addressed to nobody is written anew: without both it is " +
			"caught, above"},
	{name: "not-addressed", profile: "usurped",
		covered: "the look, as work starts, whether the record is still this session's: without " +
			"both it is caught, above"},
	{name: "start-unchecked", profile: "relapsed",
		covered: "the lease, which has been confirmed, and the grace that the others wait for " +
			"from the session's end"},
	{name: "reap-without-ack-check",
		covered: "the check that there is no record; a member that was back and is gone again " +
			"has begun its grace anew with the session's end"},
	{name: "reap-without-record-check",
		covered: "the check of its ack, which registering raises in the same transaction"},
	{name: "no-create-only",
		covered: "the guard and the epoch: only a leader that has read all since its last doubt " +
			"writes keys, and it knows each of them"},
	{name: "no-new-epoch", profile: "stray",
		covered: "the sequence keys: they are moved before all is read anew, so what was under " +
			"way is refused"},
	{name: "refusal-not-final",
		covered: "the transaction that the leader writes next, with the same sequence key: only " +
			"plans of more than 126 orders go with several"},
	{name: "acks-unconditional",
		covered: "the check of the record's session: of one session a late ack only says again " +
			"that a lease has to be waited for"},
	{name: "revoke-without-index",
		covered: "the same, and the ack: a key that a late revoke brings back is read again and " +
			"held for the member's"},
	{name: "sessions-unchecked", profile: "aimed",
		covered: "that what can never be asked concerns nobody but its own member: without both " +
			"nothing is planned, above"},
	{name: "invalid-stops-all", profile: "aimed",
		covered: "the check of what an ack says: nothing that parses leads to a request that " +
			"is invalid"},
	{name: "deadline-fixed", profile: "laden",
		covered: "the batches, which become smaller until one payload comes within a call's " +
			"time: without both nothing large starts, above"},
	{name: "payloads-by-count", profile: "laden",
		covered: "the deadline, which grows with what arrives"},
	{name: "uninformed",
		covered: "the conditions of every write, confirming that a member is gone, and the " +
			"brake: what is planned on old states is refused"},
}

// coveredSeeds are played for a breakage that others cover: whoever catches one has found out more
// than is known here.
const coveredSeeds = 3

// uncoveredSeeds are played for the others before one counts as unnoticed; none has taken 200.
const uncoveredSeeds = 1000

// firstTimes is how often the first seed is played: a run need not repeat exactly.
const firstTimes = 5

// TestMutations breaks the protocol's rules one by one and wants each breakage noticed.
func TestMutations(t *testing.T) {
	for _, m := range mutations {
		if *flagMutation != "" && m.name != *flagMutation {
			continue
		}
		begin := time.Now()
		profile := m.profile
		if profile == "" {
			profile = "hard"
		}
		wire := wireMutant(m.name)
		if first, rest, _ := strings.Cut(m.name, "+"); wire == nil {
			if wire = wireMutant(first); wire == nil {
				rest = m.name
			}
			breakRule(rest) // beside what is broken on the way, or alone
		}
		var with uint64
		caught, tries := 0, max(*flagSeeds, uncoveredSeeds)
		if m.covered != "" {
			tries = coveredSeeds
		}
		var found outcome
		for seed := range tries {
			number := *flagFrom + uint64(seed)
			if m.first > 0 && seed < firstTimes {
				number = m.first
			}
			p := draw(profile, number)
			if len(p.ids) >= crowd {
				continue // it shows in a small cluster as well, for a tenth of the price
			}
			found = play(t, p, wire, nil)
			if found.failed() {
				caught, with = seed+1, number
				break
			}
		}
		breakRule("")
		switch {
		case caught > 0:
			t.Logf("%-28s caught by %v, seed %d after %d others, %v", m.name, found.rules(), with,
				caught-1, time.Since(begin).Round(10*time.Millisecond))
		default:
			t.Logf("%-28s not caught by %d seeds, %v: %s", m.name, tries,
				time.Since(begin).Round(10*time.Millisecond), m.covered)
			if m.covered == "" {
				t.Errorf("%s: %d seeds have not noticed", m.name, tries)
			}
		}
	}
}
