package electiontest

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
)

// scripts are the scenarios in a language of one line for each act:
//
//	== NAME
//	# why
//	SUBJECT VERB ARGUMENTS... => what it says
//
// The subject is a participant, over a connection of its own. Its verbs:
//
//	joins [-priority=N] [-preempt] [-slow=DURATION] [-by-hand] [-address=ADDRESS]
//	    [-schedule=SCHEDULE [-takes=DURATION] [-clock=DURATION]]
//	    [-election=NAME] [-with=PARTICIPANT, over its connection], follows
//	resigns, drained, hands-over-to NAME, ends-it, deletes-it: its calls; they say their error
//	cut, mended, closes, session-ended: what becomes of its connection
//	ROLE [LEADER]: waits for a message with that role, behind the one that it waited for last, and
//	    says what the message says. Tokens are numbered by their size.
//	waiting, extended: waits for a message of that kind
//	gone: waits for its end, however it ends
//	runs: waits for the beginning of a run of its schedule
//	now: says its role
//	candidates: says their names
//
// Besides: "store stops", "store starts", "store restored" (if the store can), "wait DURATION",
// "agree A B" (that are not out say who leads), "clock", and "clock below DURATION [in virtual
// time]" since the clock before.
//
//go:embed scenarios.txt
var scripts string

var update = flag.Bool("update", false, "write what the scripts of the elections say anew")

// Run plays each script, and with -update writes what it says into the file. For each it calls
// with, which makes a store and calls play with it.
func Run(t *testing.T, with func(t *testing.T, play func(*testing.T, Store))) {
	all := scripts
	for _, script := range strings.Split(strings.TrimSpace(scripts), "\n\n")[1:] {
		title, _, _ := strings.Cut(script, "\n")
		t.Run(strings.TrimPrefix(title, "== "), func(t *testing.T) {
			with(t, func(t *testing.T, store Store) {
				sc := newScenario(t, store)
				defer sc.finish()
				if says := sc.playScript(script); *update {
					all = strings.Replace(all, script, says, 1)
				}
			})
		})
	}
	if *update {
		if err := os.WriteFile("../electiontest/scenarios.txt", []byte(all), 0o600); err != nil {
			t.Error(err)
		}
	}
}

// playScript returns the script with what its lines have said.
func (sc *scenario) playScript(script string) string {
	lines := strings.Split(script, "\n")
	for i, line := range lines {
		if i == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		act, want, _ := strings.Cut(line, "=>")
		act = strings.TrimSpace(act)
		says := sc.do(strings.Fields(act))
		if want = strings.TrimSpace(want); says != want && !*update {
			sc.t.Errorf("%s => %s; want %q", act, says, want)
		}
		if lines[i] = act; says != "" {
			lines[i] += " => " + says
		}
	}
	return strings.Join(lines, "\n")
}

func (sc *scenario) do(words []string) string {
	sc.t.Helper()
	subject, args := words[0], words[1:]
	switch subject {
	case "store":
		switch restorer, ok := sc.store.(Restorer); {
		case args[0] == "stops":
			sc.store.Stop()
		case args[0] == "starts":
			sc.store.Start()
		case ok:
			restorer.Restore()
		}
	case "wait":
		time.Sleep(sc.duration(args[0]))
	case "clock":
		if len(args) == 0 {
			sc.clock = time.Now()
		} else if took := time.Since(sc.clock); took > sc.duration(args[1]) &&
			(len(args) == 2 || sc.store.Virtual()) {
			sc.t.Errorf("it took %v, want %v", took, args[1:])
		}
	case "agree":
		sc.agree(args)
	default:
		p := sc.cast[subject]
		if p == nil {
			p = sc.newParticipant(subject, sc.joining(args[1:]))
			sc.cast[subject] = p
		}
		return p.do(args[0], args[1:])
	}
	return ""
}

func (sc *scenario) duration(word string) time.Duration {
	d, err := time.ParseDuration(word)
	if err != nil {
		sc.t.Fatal(err)
	}
	return d
}

// agree waits until one of the participants leads, and all that are not out know it.
func (sc *scenario) agree(names []string) {
	sc.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		says := map[string]bool{}
		for _, name := range names {
			if s := sc.cast[name].e.State().Get(); s.Role != election.Out {
				says[s.Leader.Name] = true
			}
		}
		if len(says) == 1 && !says[""] {
			return
		}
		if time.Now().After(deadline) {
			sc.t.Fatalf("not within %v: %v know who leads: %v", patience, names, says)
		}
	}
}

// joining reads what a participant joins with.
func (sc *scenario) joining(words []string) func(*participant) {
	return func(p *participant) {
		f := flag.NewFlagSet("joins", flag.ContinueOnError)
		f.IntVar(&p.cfg.Priority, "priority", 0, "")
		f.BoolVar(&p.cfg.Preempt, "preempt", false, "")
		f.StringVar(&p.cfg.Address, "address", "", "")
		f.DurationVar(&p.stopTakes, "slow", 0, "")
		f.StringVar(&p.cfg.Election, "election", p.cfg.Election, "")
		with := f.String("with", "", "")
		f.StringVar(&p.cfg.Schedule, "schedule", "", "")
		f.DurationVar(&p.takes, "takes", 0, "")
		clock := f.Duration("clock", 0, "")
		byHand := f.Bool("by-hand", false, "")
		if err := f.Parse(words); err != nil {
			sc.t.Fatal(err)
		}
		if other := sc.cast[*with]; other != nil {
			p.link = other.link
		}
		if *byHand {
			p.cfg.Lead = nil
		}
		p.cfg.Schedule = strings.Replace(p.cfg.Schedule, "@every=", "@every ", 1)
		p.cfg.Now = func() time.Time { return time.Now().Add(*clock) }
	}
}

func (p *participant) do(verb string, args []string) string {
	p.sc.t.Helper()
	ctx := p.sc.t.Context()
	switch verb {
	case "joins":
		return says(p.run(p.e.Nominate))
	case "follows":
		return says(p.run(p.e.Follow))
	case "resigns":
		p.resign()
	case "drained":
		p.stopped()
		p.e.Drained()
	case "hands-over-to":
		return says(p.e.HandOver(ctx, args[0]))
	case "ends-it":
		return says(p.e.End(ctx))
	case "deletes-it":
		return says(p.e.Delete(ctx))
	case "cut":
		p.link.Cut()
	case "mended":
		p.link.Mend()
	case "closes":
		p.link.Close()
	case "session-ended":
		p.link.End()
	case "gone":
		p.closed()
	case "runs":
		select {
		case <-p.ran:
		case <-time.After(patience):
			p.sc.t.Fatalf("%s runs nothing", p.name)
		}
	case "now":
		return p.e.State().Get().Role.String()
	case "candidates":
		list, err := p.e.Candidates(ctx)
		var names []string
		for _, c := range list {
			names = append(names, c.Name)
		}
		return strings.Join(names, ", ") + says(err)
	default:
		return p.sc.says(p.next(verb, args))
	}
	return ""
}

// says names the error by what it matches.
func says(err error) string {
	for _, known := range []error{election.ErrSessionLost, election.ErrClosed, election.ErrStarted,
		election.ErrNoCandidate} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// next waits for the next message of a role, or of a kind. One that follows wants to know whom.
func (p *participant) next(kind string, leader []string) election.Status {
	p.sc.t.Helper()
	s, n := p.waitFrom(p.heard, kind, func(s election.Status) bool {
		switch {
		case s.What.String() == kind:
			return true
		case s.Role.String() != kind:
			return false
		case len(leader) == 1 && leader[0] == "nobody":
			return s.Leader.ID == ""
		case len(leader) == 1:
			return s.Leader.Name == leader[0]
		}
		return s.Leader.ID != "" || s.Role == election.Uncertain || s.Role == election.Out
	})
	if p.heard = n + 1; s.Role == election.Out {
		p.closed()
	}
	return s
}

// says is what a message says: all that is the same on both stores.
func (sc *scenario) says(s election.Status) string {
	leader, token := "nobody", ""
	if s.Leader.ID != "" {
		if !slices.Contains(sc.tokens, s.Token) {
			sc.tokens = append(sc.tokens, s.Token)
			slices.Sort(sc.tokens)
		}
		token = fmt.Sprintf("token %d", 1+slices.Index(sc.tokens, s.Token))
		leader = strings.TrimSpace(s.Leader.Name+" "+s.Leader.Address) + ", " + token
	}
	switch {
	case s.Role == election.Out && s.Err != nil:
		return says(s.Err)
	case s.Role == election.Out:
		for text, so := range map[string]bool{"resigned": s.Resigned, "ended": s.Ended,
			"deleted": s.Deleted} {
			if so {
				return text
			}
		}
	case s.Role == election.Uncertain && s.Reason != "":
		return "and why"
	case s.Role == election.Observing:
		return fmt.Sprintf("%v: %s", s.What, leader)
	case s.Role == election.Following:
		return leader
	case s.Role == election.Leading && s.Until.Before(time.Now()):
		return token + ", with a lease that is over"
	}
	return token
}
