package simulation_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// fault is one of docs/faults.md, by its number.
type fault struct {
	what string
	draw func(h *hand) // nil: the simulation has no means to play it
}

// hand draws the episodes of one fault.
type hand struct {
	*rand.Rand
	p      *plan
	number int
	at     time.Duration // about when they begin
}

// add puts an episode into the plan.
func (h *hand) add(e episode) {
	e.at += h.at
	e.fault = h.number
	if e.n == 0 {
		e.n = h.IntN(1 << 20)
	}
	h.p.episodes = append(h.p.episodes, e)
}

func (h *hand) seconds(from, to float64) time.Duration {
	return time.Duration((from + (to-from)*h.Float64()) * float64(time.Second)).Round(
		time.Millisecond)
}

// leases is a time as long as so many leases.
func (h *hand) leases(from, to float64) time.Duration {
	ttl := max(h.p.settings.ttl, h.p.settings.long).Seconds()
	return h.seconds(from*ttl, to*ttl)
}

func (h *hand) of(words ...string) string { return words[h.IntN(len(words))] }

func (h *hand) one() []int { return []int{h.IntN(len(h.p.ids))} }

// some are a few members, and mostly not all.
func (h *hand) some() []int {
	return h.Perm(len(h.p.ids))[:1+min(h.IntN(len(h.p.ids)), h.IntN(len(h.p.ids)))]
}

// leader is the one who leads when the episode begins, or mostly he.
func (h *hand) leader() []int {
	if h.IntN(3) == 0 {
		return h.one()
	}
	return []int{whoLeads}
}

func (h *hand) storm(kinds ...string) {
	h.add(episode{
		kind: "storm", who: h.some(), dur: h.seconds(2, 40),
		weather: weather{0.1 + 0.7*h.Float64(), kinds},
	})
}

func (h *hand) kill(most float64) {
	h.add(episode{
		kind: "kill", who: h.one(), dur: h.seconds(0.1, most),
		how: h.of("before-write", "after-write", "write-in-flight", "now"),
	})
}

func (h *hand) usurper() {
	h.add(episode{kind: "usurper", who: h.one(), dur: h.seconds(8, 40),
		how: h.of("silent", "eyes")})
}

func (h *hand) takeover(most float64) {
	h.add(episode{
		kind: "takeover", dur: h.seconds(0.1, most), n: 1 + h.IntN(7),
		how: h.of("before-write", "after-write", "write-in-flight"),
	})
}

func (h *hand) work() {
	h.add(episode{kind: "work", how: h.of("add", "remove", "both"), n: 1 + h.IntN(6)})
}

func (h *hand) cut(who []int, dur time.Duration) {
	h.add(episode{kind: "cut", who: who, dur: dur, how: h.of("refused", "silent", "one-way")})
}

// either draws one of several.
func (h *hand) either(draws ...func()) { draws[h.IntN(len(draws))]() }

// faults are those of docs/faults.md.
var faults = map[int]fault{
	1: {"a leader without a way to Consul", func(h *hand) { h.cut(h.leader(), h.leases(0.2, 3)) }},
	2: {"a process that stands still beyond its lease", func(h *hand) {
		h.add(episode{kind: "freeze", who: h.leader(), dur: h.leases(0.8, 2.5)})
	}},
	3: {"elections and restarts of Consul", func(h *hand) {
		h.add(episode{kind: h.of("election", "restart"), dur: h.seconds(0.2, 20)})
	}},
	4: {"destroyed sessions", func(h *hand) {
		for n, i := 1+h.IntN(3), 0; i < n; i++ {
			h.add(episode{kind: "destroy", who: h.leader(), at: time.Duration(i) * h.seconds(0.02,
				3)})
		}
	}},
	5: {"a stranger at the leader key", func(h *hand) {
		h.either(func() {
			h.add(episode{
				kind: "strange", who: h.one(), how: h.of("leader-delete", "leader-write",
					"leader-cas"),
			})
		}, func() {
			h.add(episode{kind: "touch", dur: h.seconds(2, 20)})
		})
	}},
	6: {"lost answers and late writes", func(h *hand) {
		h.either(func() {
			h.storm(replyLost, replyReset, sentLate, failedDone)
		}, func() {
			h.add(episode{kind: "stray", who: h.one(), how: h.of("", "depose")})
		})
	}},
	7: {"candidates within the lock-delay", func(h *hand) {
		h.takeover(3)
		h.add(episode{kind: "join", who: h.one(), dur: h.seconds(1, 5)})
	}},
	8: {"leaders that resign", func(h *hand) {
		h.add(episode{kind: "leaders", dur: h.seconds(8, 30), how: h.of("stop", "mixed")})
	}},
	9: {"a slow Consul", func(h *hand) {
		h.add(episode{
			kind: "storm", who: h.some(), dur: h.seconds(5, 60),
			weather: weather{0.5 + 0.5*h.Float64(), []string{replyLate}},
		})
	}},
	10: {"stops in the middle of a start", func(h *hand) {
		who, at := h.one(), time.Duration(0)
		for range 2 + h.IntN(3) {
			h.add(episode{kind: "leave", who: who, at: at, dur: h.seconds(0.05, 2)})
			at += h.seconds(0.1, 4)
		}
	}},
	11: {"long polls that say odd things", func(h *hand) {
		h.storm(noIndex, backward, spurious, cutShort, silent)
	}},
	12: {"two processes of one id", func(h *hand) {
		h.either(func() {
			h.add(episode{kind: "twin", who: h.one(), dur: h.seconds(1, 80)})
		}, h.usurper, func() { h.kill(3) })
	}},
	13: {"refusals and garbage", func(h *hand) {
		h.storm(denied, busy, away, failed, garbage)
	}},
	14: {"suspended hosts", func(h *hand) {
		h.add(episode{kind: "suspend", who: h.one(), dur: h.seconds(1, 60)})
	}},
	15: {"members that go for good", func(h *hand) {
		h.add(episode{kind: "gone", who: h.one(), how: h.of("stop", "kill")})
	}},
	16: {"leaders that die around each write", func(h *hand) {
		at := h.at
		for range 2 + h.IntN(3) {
			h.takeover(8)
			h.at += h.seconds(2, 15)
		}
		h.at = at
	}},
	17: {"a new leader with slow, old and broken reads", func(h *hand) {
		h.takeover(10)
		h.storm(replyLate, stale, cutShort, spurious)
	}},
	18: {"owners that come back", func(h *hand) {
		h.either(func() {
			h.add(episode{kind: "freeze", who: h.one(), dur: h.leases(3.2, 5)})
		}, func() {
			h.cut(h.one(), h.leases(3.2, 5))
		}, func() {
			h.add(episode{kind: "unseen", who: h.one(), dur: h.seconds(14, 40)})
		}, func() {
			who := []int{h.IntN(len(h.p.ids)), h.IntN(len(h.p.ids))}
			h.add(episode{kind: "boomerang", who: who, dur: h.seconds(40, 60)})
		})
	}},
	19: {"keys of strangers", func(h *hand) {
		h.either(func() {
			how := h.of("odd-keys", "ack-delete", "ack-write", "member-delete", "member-write")
			h.add(episode{kind: "strange", who: h.one(), how: how})
		}, func() {
			h.add(episode{
				kind: "aimed", who: h.one(), dur: h.seconds(5, 40),
				how: h.of("odd-item", "ids", "order", "no-item"),
			})
		})
	}},
	20: {"work that does not obey, fails, panics", func(h *hand) {
		h.add(episode{
			kind: "stubborn", who: h.some(), dur: h.seconds(5, 60), how: h.of("ignores", "fails",
				"panics"),
		})
	}},
	21: {"members and items that come and go", func(h *hand) {
		for range 1 + h.IntN(3) {
			h.add(episode{
				kind: h.of("leave", "join"), who: h.one(), at: h.seconds(0, 5),
				dur: h.seconds(1, 30),
			})
		}
		h.either(h.work, func() { h.add(episode{kind: "churn", dur: h.seconds(5, 30)}) })
	}},
	22: {"a Consul that has lost writes", func(h *hand) {
		h.either(func() {
			h.add(episode{kind: "restore", dur: h.seconds(1, 40)})
		}, func() {
			h.add(episode{kind: "reset", dur: h.seconds(1, 15)})
		})
	}},
	23: {"a rollout", func(h *hand) {
		h.add(episode{kind: "rollout", dur: h.seconds(0.2, 10)})
	}},
	24: {"orders that are taken back under way", func(h *hand) {
		h.work()
		h.either(func() {
			who := []int{h.IntN(len(h.p.ids)), h.IntN(len(h.p.ids))}
			h.add(episode{kind: "recall", who: who, dur: h.seconds(2, 20)})
		}, func() {
			h.add(episode{kind: "stray", who: h.one()})
		})
	}},
	25: {"writers of config values", func(h *hand) {
		h.add(episode{kind: "writers", how: h.of(plainConfig, loggedConfig)})
		h.either(func() { h.kill(20) }, func() {
			h.storm(refused, replyLost, replyReset, sentLate, failedDone, denied)
		})
	}},
	26: {"commands that outlive their coordd", func(h *hand) {
		h.add(episode{kind: "guards"})
		h.kill(5)
	}},
	27: {"a coordd that stands still, and its work does not", func(h *hand) {
		h.add(episode{kind: "hang", who: h.leader(), dur: h.leases(0.5, 4), how: everything})
	}},
	28: {"actors that hang", func(h *hand) {
		e := episode{kind: "hang", who: h.one()}
		drawHang(&e, h)
		h.add(e)
	}},
	29: {"second copies of requests", func(h *hand) { h.add(episode{kind: "copies"}) }},
	30: {"answers from the past", func(h *hand) {
		h.add(episode{kind: "past"})
		h.either(func() {
			h.add(episode{kind: "restart", dur: h.seconds(0.5, 20)})
		}, func() {
			h.add(episode{
				kind: "relapse", who: h.some(), dur: h.seconds(32, 60),
				how: h.of("refused", "silent", "destroyed"),
			})
		})
	}},
	31: {"predecessors that cannot be seen", func(h *hand) {
		h.add(episode{kind: "unknown"})
		h.kill(3)
	}},
	32: {"daemons", nil},
	33: {"an actor that waits for a disk or a log", func(h *hand) {
		h.add(episode{
			kind: "hang", who: h.leader(), dur: h.seconds(1, 90),
			how: h.of("lock", "assigner", "worker-manager", "membership-keeper", "leader-tracker"),
		})
	}},
	34: {"what goes on while somebody is waited for", func(h *hand) {
		h.kill(90)
		h.add(episode{
			kind: h.of("churn", "leaders", "receivers", "touch"),
			dur:  h.seconds(20, 40), how: h.of("stop", "kill", "mixed"),
		})
	}},
	35: {"aimed values", func(h *hand) {
		for range 1 + h.IntN(3) {
			e := episode{kind: "aimed", who: h.one(), at: h.seconds(0, 10)}
			drawAim(&e, h.Rand)
			h.add(e)
		}
	}},
	36: {"large payloads and thin lines", func(h *hand) {
		h.add(episode{kind: "thin"})
		h.work()
	}},
	37: {"clients that take time and memory", nil},
	38: {"browsers, addresses, terminals, secrets", nil},
	39: {"agents of Consul that go, hang, come back", func(h *hand) {
		h.either(func() {
			h.add(episode{
				kind: "blind", who: h.some(), dur: h.leases(0.1, 3), how: h.of("silent", "refused"),
			})
		}, func() {
			for n, who, i := 2+h.IntN(4), h.some(), 0; i < n; i++ {
				h.add(episode{
					kind: "cut", who: who, at: time.Duration(i) * h.seconds(2, 5),
					dur: h.seconds(0.1, 2), how: "refused",
				})
			}
		}, func() {
			h.p.settings.check, h.p.settings.agents = true, true
			for range 1 + h.IntN(3) {
				h.add(episode{
					kind: h.of("machine", "agent-killed", "agent-left"), who: h.one(),
					at: h.seconds(0, 20), dur: h.leases(0.1, 3),
				})
			}
		})
	}},
	40: {"members of other settings", func(h *hand) {
		h.add(episode{kind: "ttls"})
		h.either(func() { h.kill(20) }, h.usurper)
	}},
	41: {"clocks of other rates", func(h *hand) {
		h.add(episode{kind: "rates"})
		h.add(episode{kind: "late-lease", who: h.one(), dur: h.seconds(15, 40)})
	}},
	42: {"a busy machine", func(h *hand) {
		h.add(episode{kind: "busy", dur: h.seconds(10, 60)})
	}},
}

var rowOfFault = regexp.MustCompile(`(?m)^\| (\d+) \| [^|]+ \| ([^|]+) \| ([^|]+) \|$`)

// That the tests exist is held by the test of all documents, in cmd/coordd.
func TestEachFaultOfTheListIsPlayedAsItSays(t *testing.T) {
	text, err := os.ReadFile("../../docs/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := rowOfFault.FindAllStringSubmatch(string(text), -1)
	for i, row := range rows {
		n, _ := strconv.Atoi(row[1])
		f, ok := faults[n]
		switch {
		case n != i+1 || !ok:
			t.Fatalf("the line of fault %d is the %dth, and faults has it: %v", n, i+1, ok)
		case !strings.Contains(row[3], "`Test"):
			t.Errorf("fault %d: no test is named", n)
		}
		drawn := map[string]bool{}
		for seed := range uint64(300) {
			if f.draw == nil {
				break
			}
			p := drawPairOf(seed, n)
			for _, e := range p.episodes {
				if _, known := scriptOf(e.kind); !known {
					t.Fatalf("fault %d: nothing plays %q", n, e.kind)
				}
				drawn[e.kind] = true
			}
			if p.effective().String() == "" {
				t.Errorf("fault %d, seed %d: no plan", n, seed)
			}
		}
		want := "none"
		if f.draw != nil {
			want = fmt.Sprint(slices.Sorted(maps.Keys(drawn)))
		}
		says := strings.Fields(strings.ReplaceAll(row[2], "`", ""))
		slices.Sort(says)
		if got := fmt.Sprint(says); got != want && got != "["+want+"]" {
			t.Errorf("fault %d: the document says that %v play it, and these do: %v", n, got, want)
		}
	}
	if len(rows) != len(faults) {
		t.Errorf("the document has %d faults, and the table %d", len(rows), len(faults))
	}
}
