//go:build linux && coordd_takeover

package takeover_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/internal/history"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/realconsul"
)

const machines = 6

// awayFor is how long an agent is away that is killed and started again: well within the default
// check's TTL, and beyond one of 1 s.
const awayFor = 1500 * time.Millisecond

// longest is how long a take-over is waited for.
const longest = 80 * time.Second

// event is what happens to a machine.
type event struct {
	name string
	// strike does it, and returns what the histories must know of the victim besides.
	strike func(t *testing.T, agent *realconsul.Server, victims []*process) history.Verb
	// mend makes the machine whole again once all is over.
	mend func(t *testing.T, agent *realconsul.Server, victims []*process) history.Verb
	// key is that of its worst case, keyLeader the leader's, and keyExec that with a guard; the
	// key, if it is empty.
	key, keyLeader, keyExec string
	// lock is that of api.Lock with its defaults and at its minimum.
	lock [2]string
	// election is how the end of an election's leader is noticed, and command that of one whose
	// command has a guard.
	election, command detection
	// window is how long is waited where nobody need lose anything.
	window time.Duration
}

// detection is how Consul notices that a session's holder has gone.
type detection int

const (
	byCheck detection = iota
	byGossip
	atOnce  // Consul ends the session
	byGuard // which gives the leadership up: then there is no lock-delay
)

// electionBound is the worst case of an election with those settings.
func electionBound(cfg onconsul.Config, by detection) bound {
	process, machine := cfg.TakeOver()
	_, check, delay := cfg.Times()
	switch by {
	case byGossip:
		return bound{Formula: fmt.Sprintf("gossip %v + lock-delay %v + calls 1s", store.Gossip,
			delay), Seconds: machine.Seconds()}
	case byGuard:
		return bound{Formula: "what the command takes to stop + calls 1s", Seconds: 1}
	case atOnce:
		return bound{Formula: fmt.Sprintf("lock-delay %v + calls 1s", delay),
			Seconds: (process - check).Seconds()}
	}
	return bound{Formula: fmt.Sprintf("check-ttl %v + lock-delay %v + calls 1s", check, delay),
		Seconds: process.Seconds()}
}

func kill(_ *testing.T, _ *realconsul.Server, victims []*process) history.Verb {
	for _, v := range victims {
		_ = syscall.Kill(v.PID, syscall.SIGKILL)
	}
	for _, v := range victims {
		<-v.Exited
	}
	return history.End
}

// killAll leaves no guard that could speak for the victims.
func killAll(t *testing.T, agent *realconsul.Server, victims []*process) history.Verb {
	t.Helper()
	var all []int
	for _, v := range victims {
		all = append(all, v.family(t)...)
	}
	_ = syscall.Kill(agent.PID(), syscall.SIGSTOP) // in the same moment
	for _, pid := range all {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = agent.Kill()
	for _, v := range victims {
		<-v.Exited
	}
	return history.End
}

func nothing(*testing.T, *realconsul.Server, []*process) history.Verb { return "" }

// back starts an agent and waits until Consul has it for alive.
func back(t *testing.T, agent *realconsul.Server, _ []*process) history.Verb {
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	if agent.Start() == nil {
		if err := agent.WaitReady(ctx); err != nil {
			t.Fatal(err)
		}
	}
	return ""
}

var events = []event{
	{name: killed, strike: kill, mend: nothing,
		key: "take_over", keyLeader: "take_over_of_leader", keyExec: "take_over_after_kill",
		lock:     [2]string{"2 x ttl 15s + lock-delay 15s + retry 5s", "2 x ttl 10s"},
		election: byCheck, command: byGuard},
	{name: hung,
		strike: func(_ *testing.T, _ *realconsul.Server, victims []*process) history.Verb {
			for _, v := range victims {
				_ = syscall.Kill(v.PID, syscall.SIGSTOP)
			}
			return history.Freeze
		},
		mend: func(_ *testing.T, _ *realconsul.Server, victims []*process) history.Verb {
			for _, v := range victims {
				_ = syscall.Kill(v.PID, syscall.SIGCONT)
			}
			time.Sleep(2 * time.Second) // it sees what time it is
			return history.Thaw
		},
		key: "take_over", keyLeader: "take_over_of_leader",
		lock:     [2]string{"2 x ttl 15s + lock-delay 15s + retry 5s", "2 x ttl 10s"},
		election: byCheck, command: byCheck},
	{name: lost,
		strike: killAll,
		mend:   back, key: "take_over_of_lost_machine", keyLeader: "take_over_of_leaders_machine",
		lock:     [2]string{"gossip 8s + lock-delay 15s + retry 5s", "gossip 8s + retry 5s"},
		election: byGossip, command: byGossip},
	{name: left,
		strike: func(_ *testing.T, agent *realconsul.Server, _ []*process) history.Verb {
			_ = agent.Stop()
			return ""
		},
		mend: back, key: "take_over_of_left_agent", keyLeader: "take_over_of_leaders_left_agent",
		lock:     [2]string{"lock-delay 15s + retry 5s", "retry 5s"},
		election: atOnce, command: atOnce},
	{name: away, window: 15 * time.Second,
		strike: func(t *testing.T, agent *realconsul.Server, _ []*process) history.Verb {
			_ = agent.Kill()
			time.Sleep(awayFor)
			return back(t, agent, nil)
		},
		mend: nothing},
}

// measured is one side at one event, over the rounds.
type measured struct {
	took  []time.Duration
	kept  int // rounds in which it lost nothing
	lost  []time.Duration
	bound bound
}

// contender is one row of each event's.
type contender struct {
	name  string
	flags []string // of coordd run
	leads bool
	exec  bool
	kind  string // of a candidate; empty: members of coordd
	bound func(e event) bound
	rides time.Duration // how long a silence of its agent's may cost it nothing
}

// chosen are those of all whose names a variable's expression matches, if that is set.
func chosen[T any](t *testing.T, all []T, name func(T) string, variable string) (some []T) {
	only, err := regexp.Compile(os.Getenv(variable))
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if only.MatchString(name(one)) {
			some = append(some, one)
		}
	}
	if len(some) == 0 {
		t.Fatalf("%s: nothing is called that", variable)
	}
	return some
}

func rounds(t *testing.T) int {
	n, err := strconv.Atoi(os.Getenv("TAKEOVER_ROUNDS"))
	if err != nil || n < 1 {
		t.Fatal("TAKEOVER_ROUNDS: give how many, as make takeover does")
	}
	return n
}

func contenders(t *testing.T) []contender {
	// An election's leader rides through what a member of the same times does.
	rides := worstCases(t)["rides_through_silence_of"].time()
	all := []contender{
		{name: lockRow, kind: lockDefaults,
			bound: func(e event) bound { return bound{Formula: e.lock[0]} }},
		{name: leastRow, kind: lockMinimum,
			bound: func(e event) bound { return bound{Formula: e.lock[1]} }},
		{name: electRow, kind: goElection, rides: rides,
			bound: func(e event) bound { return electionBound(elections[goElection], e.election) }},
		{name: shortElected, kind: goShort,
			bound: func(e event) bound { return electionBound(elections[goShort], e.election) }},
		{name: commandRow, kind: command, rides: rides,
			bound: func(e event) bound { return electionBound(elections[command], e.command) }},
	}
	for _, m := range []struct {
		flags string
		leads bool
	}{
		{"", false}, {"", true}, {"--lock-delay 1s", true}, {"--lease 6s", false},
		{"--lease 3s --check-ttl 1s", false}, {"--lease 3s --check-ttl 1s", true},
	} {
		flags := strings.Fields(m.flags)
		worst := worstCases(t, flags...)
		c := contender{name: memberRow, flags: flags, leads: m.leads,
			rides: worst["rides_through_silence_of"].time()}
		if m.flags != "" {
			c.name = "coordd, `" + m.flags + "`"
		}
		if m.leads {
			c.name += ", the leader"
		}
		c.bound = func(e event) bound {
			if m.leads {
				return worst[e.keyLeader]
			}
			return worst[e.key]
		}
		all = append(all, c)
	}
	worst := worstCases(t, "--exec", "true")
	return append(all, contender{name: execRow, exec: true,
		rides: worst["rides_through_silence_of"].time(),
		bound: func(e event) bound {
			if e.keyExec != "" {
				return worst[e.keyExec]
			}
			return worst[e.key]
		}})
}

func TestTakeOvers(t *testing.T) {
	cluster := realconsul.Start(t, realconsul.Options{Servers: 3, Agents: machines})
	all, events := contenders(t), events
	whole := len(all) + len(events)
	all = chosen(t, all, func(c contender) string { return c.name }, "TAKEOVER_WHO")
	events = chosen(t, events, func(e event) string { return e.name }, "TAKEOVER_EVENTS")
	results := map[string]*measured{}
	begin := time.Now()
	for round := range rounds(t) {
		for n, e := range events {
			first := rand.IntN(machines)
			sides := make([]side, len(all))
			var agents []string
			for i := range 3 {
				agents = append(agents, cluster.Agents[(first+i)%machines].Addr())
			}
			for i, c := range all {
				name := fmt.Sprintf("r%d-e%d-s%d", round, n, i)
				if c.kind != "" {
					sides[i] = &candidates{kind: c.kind, name: name, agents: agents}
				} else {
					sides[i] = &service{name: name, consul: cluster.Addr(), agents: agents,
						flags: c.flags, leads: c.leads, exec: c.exec}
				}
			}
			for _, s := range sides {
				s.start(t)
			}
			// at any moment between two renewals
			time.Sleep(3*time.Second + rand.N(4*time.Second))
			hit(t, e, cluster.Agents[first], all, sides, results)
			if t.Failed() {
				return
			}
		}
	}
	text := fmt.Sprintf("\n%s, %d rounds, on %d processors:\n%s\n", begin.Format("2006-01-02"),
		rounds(t), runtime.NumCPU(), table(events, all, results))
	t.Log(text)
	if len(all)+len(events) < whole {
		return
	}
	if err := errors.Join(write(document, text), write(readme, summary(text))); err != nil {
		t.Error(err)
	}
}

// hit lets an event happen to the sides and notes how each of them fared.
func hit(t *testing.T, e event, agent *realconsul.Server, all []contender, sides []side,
	results map[string]*measured) {
	t.Helper()
	var victims []*process
	for _, s := range sides {
		s.settled(t)
		victims = append(victims, s.victim())
	}
	blow := time.Now()
	verb := e.strike(t, agent, victims)
	struck := time.Now()
	if e.window == 0 {
		testkit.Look(longest, func() string {
			for _, s := range sides {
				if _, complaint := s.taken(blow); complaint != "" {
					return complaint
				}
			}
			return ""
		})
	} else {
		time.Sleep(e.window)
	}
	thawed := time.Now()
	mended := e.mend(t, agent, victims)
	for i, s := range sides {
		key := e.name + all[i].name
		m := results[key]
		if m == nil {
			m = &measured{bound: all[i].bound(e)}
			results[key] = m
		}
		took, complaint := s.taken(blow)
		at := s.lost(blow)
		switch {
		case complaint == "":
			m.took = append(m.took, took)
			if limit := m.bound.time(); limit > 0 && took > limit {
				t.Errorf("%s: %s: taken over after %v, and at most %v are promised", e.name,
					all[i].name, took, limit)
			}
		case e.window == 0 && m.bound.Seconds == 0:
			m.took = append(m.took, longest) // others' promises are not ours to hold
		case e.window == 0:
			t.Errorf("%s: %s: %s", e.name, all[i].name, complaint)
		case at == 0:
			m.kept++
		}
		if e.window > 0 && struck.Sub(blow) < all[i].rides && (complaint == "" || at > 0) {
			t.Errorf("%s: %s lost its work, and the agent was away for %v", e.name, all[i].name,
				struck.Sub(blow))
		}
		if at > 0 {
			m.lost = append(m.lost, at)
		}
		t.Logf("%s: %s: %v (%s), the victim's own work stopped: %v; struck in %v", e.name,
			all[i].name, took.Round(time.Millisecond), complaint, at.Round(time.Millisecond),
			struck.Sub(blow).Round(time.Millisecond))
	}
	for i, s := range sides {
		s.end(t)
		if s, ok := s.(*service); ok {
			var done []history.Event
			// the guard of one that was killed ends its commands in its own time
			if verb != "" && !(all[i].exec && e.keyExec != "") {
				done = append(done, history.Event{At: struck, Verb: verb, Proc: s.proc()})
			}
			if mended != "" {
				done = append(done, history.Event{At: thawed, Verb: mended, Proc: s.proc()})
			}
			s.judge(t, done)
		}
		if t.Failed() {
			t.Logf("%s: the victim: %s", all[i].name,
				testkit.Tail(contents(s.victim().err), 15))
		}
	}
}
