//go:build linux && coordd_takeover

package takeover_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/history"
	"github.com/coordd/coordd/internal/testkit"
)

// side is one of those that are compared: processes on several machines, the first one on the
// machine that is hit.
type side interface {
	// start runs them, the one that is to lead first, and returns when all is shared out.
	start(t *testing.T)
	victim() *process
	// settled tells the side that the blow falls now.
	settled(t *testing.T)
	// taken is how long after the blow everything of the victim's ran elsewhere; "": it does.
	taken(blow time.Time) (took time.Duration, complaint string)
	// lost tells how long after the blow the victim itself stopped its work; 0: it has not.
	lost(blow time.Time) time.Duration
	end(t *testing.T)
}

// process is one run of a program, at the agent of its machine.
type process struct {
	*testkit.Child
	out, err string // files
	mark     string // a variable that it and all that it starts have in their environment
}

// family are the process, its guard and its commands.
func (p *process) family(t *testing.T) []int {
	pids, err := testkit.Marked(p.mark)
	if err != nil {
		t.Fatal(err)
	}
	return pids
}

func launch(t *testing.T, path string, env []string, args ...string) *process {
	t.Helper()
	dir, err := os.MkdirTemp(scratch, "process-")
	if err != nil {
		t.Fatal(err)
	}
	p := &process{out: filepath.Join(dir, "out"), err: filepath.Join(dir, "err"),
		mark: "TAKEOVER_PROCESS=" + dir}
	cmd := exec.Command(path, args...)
	for name, to := range map[string]*os.File{p.out: nil, p.err: nil} {
		if to, err = os.Create(name); err != nil {
			t.Fatal(err)
		}
		defer to.Close()
		if name == p.out {
			cmd.Stdout = to
		} else {
			cmd.Stderr = to
		}
	}
	cmd.Env = append(testkit.Environ("COORDD_", "CONSUL_", "GO"), append(env, p.mark)...)
	if p.Child, err = testkit.StartChild(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

// finish ends a process as its operator would.
func (p *process) finish(t *testing.T) {
	t.Helper()
	if !p.Running() {
		return
	}
	_ = syscall.Kill(p.PID, syscall.SIGTERM)
	select {
	case <-p.Exited:
	case <-time.After(testkit.Patience):
		t.Errorf("process %d does not stop", p.PID)
		p.Kill()
	}
}

// service is members of coordd. Those without a command have no guard: what is true of them is true
// of any Go host.
type service struct {
	name, consul string // consul: of operators' commands
	agents       []string
	flags        []string
	leads        bool // the victim leads
	exec         bool // a command runs for each item

	members   []*process
	histories []string
	theirs    map[string]bool // what the victim works on
}

const items = 12

func (s *service) victim() *process { return s.members[0] }

func (s *service) start(t *testing.T) {
	t.Helper()
	order := []int{0, 1, 2}
	if !s.leads {
		order = []int{1, 0, 2}
	}
	s.members, s.histories = make([]*process, 3), make([]string, 3)
	for n, i := range order {
		s.histories[i] = filepath.Join(scratch, fmt.Sprintf("%s-n%d.history", s.name, i+1))
		args := append([]string{"run", "--service", s.name, "--consul", s.agents[i], "--id",
			fmt.Sprintf("n%d", i+1), "--history", s.histories[i]}, s.flags...)
		if s.exec {
			args = append(args, "--exec", "exec sleep 1000")
		} else {
			args = append(args, "--hold-items")
		}
		s.members[i] = launch(t, binary, nil, args...)
		if n == 0 {
			testkit.Await(t, testkit.Patience, "the first one leads", func() string {
				for _, e := range s.events(i) {
					if e.Verb == history.Lead {
						return ""
					}
				}
				return "not yet"
			})
		}
	}
	args := []string{"work", "add", "--service", s.name, "--consul", s.consul}
	for i := range items {
		args = append(args, fmt.Sprintf("item-%02d", i))
	}
	add := launch(t, binary, nil, args...)
	<-add.Exited
	if add.Code != 0 {
		t.Fatalf("coordd work add: %d", add.Code)
	}
	testkit.Await(t, testkit.Patience, "every member has its share", func() string {
		for i := range s.members {
			if n := len(running(s.events(i))); n != items/len(s.members) {
				return fmt.Sprintf("%s: member %d runs %d\n%s", s.name, i+1, n,
					testkit.Tail(contents(s.members[i].err), 5))
			}
		}
		return ""
	})
}

func contents(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// events are what a member has written down so far; a line that is being written is left out.
func (s *service) events(member int) []history.Event {
	text := contents(s.histories[member])
	if end := strings.LastIndexByte(text, '\n'); end >= 0 {
		if events, err := history.Read(strings.NewReader(text[:end+1])); err == nil {
			return events
		}
	}
	return nil
}

// running are the items that a member works on.
func running(events []history.Event) map[string]bool {
	now := map[string]bool{}
	for _, e := range events {
		switch e.Verb {
		case history.Start:
			now[e.Item] = true
		case history.Stop:
			delete(now, e.Item)
		}
	}
	return now
}

func (s *service) settled(t *testing.T) {
	t.Helper()
	s.theirs = running(s.events(0))
	for _, m := range s.members {
		if strings.Contains(contents(m.err), "msg=no-check") {
			t.Errorf("%s: a member had no check: its figures say nothing", s.name)
		}
	}
}

func (s *service) taken(blow time.Time) (took time.Duration, complaint string) {
	missing := len(s.theirs)
	for _, member := range []int{1, 2} {
		for _, e := range s.events(member) {
			if e.Verb == history.Start && e.At.After(blow) && s.theirs[e.Item] {
				missing--
				took = max(took, e.At.Sub(blow))
			}
		}
	}
	if missing > 0 {
		return 0, fmt.Sprintf("%d of its items run nowhere", missing)
	}
	return took, ""
}

func (s *service) lost(blow time.Time) time.Duration {
	for _, e := range s.events(0) {
		if e.Verb == history.Stop && e.At.After(blow) {
			return e.At.Sub(blow)
		}
	}
	return 0
}

func (s *service) end(t *testing.T) {
	t.Helper()
	for _, m := range s.members {
		m.finish(t)
	}
}

// judge has the members' histories judged, with what was done to the victim: nobody worked on an
// item while another one did.
func (s *service) judge(t *testing.T, done []history.Event) {
	t.Helper()
	all := [][]history.Event{done}
	for i := range s.members {
		all = append(all, s.events(i))
	}
	report := history.Check(history.Merge(all...), history.Options{})
	if len(report.Breaches) > 0 || report.Starts < items+len(s.theirs) && len(done) > 0 {
		t.Errorf("%s: %v", s.name, report)
	}
}

// proc is the victim's name in the histories.
func (s *service) proc() string {
	for _, e := range s.events(0) {
		if e.Verb == history.Boot {
			return e.Proc
		}
	}
	return ""
}

// duty is the command of `coordd elect`: it says what a candidate of ours in Go says.
const duty = `say() { echo "$(date +%s%N) $1"; }
trap 'say lost; exit' TERM
say leads
while :; do sleep 0.05; done`

// candidates are two processes that want one leadership.
type candidates struct {
	kind, name string
	agents     []string
	all        []*process
}

func (c *candidates) victim() *process   { return c.all[0] }
func (c *candidates) settled(*testing.T) {}

func (c *candidates) start(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		var p *process
		if c.kind == command {
			p = launch(t, binary, nil, "elect", c.name, "--consul", c.agents[i], "--id",
				fmt.Sprintf("n%d", i+1), "--", "sh", "-c", duty)
		} else {
			p = launch(t, self, []string{"TAKEOVER_CANDIDATE=" + c.kind, "TAKEOVER_AGENT=" +
				c.agents[i], "TAKEOVER_NAME=" + c.name})
		}
		c.all = append(c.all, p)
		if i == 0 {
			testkit.Await(t, testkit.Patience, "the first one leads", func() string {
				if p.said("leads", time.Time{}).IsZero() {
					return "not yet: " + contents(p.err)
				}
				return ""
			})
		}
	}
}

// said is when a candidate first said that after a moment; zero: it has not.
func (p *process) said(what string, after time.Time) time.Time {
	for lines := bufio.NewScanner(strings.NewReader(contents(p.out))); lines.Scan(); {
		var at int64
		if _, err := fmt.Sscanf(lines.Text(), "%d "+what, &at); err == nil &&
			time.Unix(0, at).After(after) {
			return time.Unix(0, at)
		}
	}
	return time.Time{}
}

func (c *candidates) taken(blow time.Time) (time.Duration, string) {
	if at := c.all[1].said("leads", blow); !at.IsZero() {
		return at.Sub(blow), ""
	}
	return 0, "the other one does not lead: " + contents(c.all[1].out) + contents(c.all[1].err)
}

func (c *candidates) lost(blow time.Time) time.Duration {
	if at := c.all[0].said("lost", blow); !at.IsZero() {
		return at.Sub(blow)
	}
	return 0
}

func (c *candidates) end(t *testing.T) {
	t.Helper()
	for _, p := range c.all {
		p.finish(t)
	}
}

// worstCases are those of the binary for these flags, by their keys.
func worstCases(t *testing.T, flags ...string) map[string]bound {
	t.Helper()
	p := launch(t, binary, nil, append([]string{"run", "--explain-timing", "--json"}, flags...)...)
	<-p.Exited
	var said struct{ Cases []bound }
	if err := json.Unmarshal([]byte(contents(p.out)), &said); err != nil || p.Code != 0 {
		t.Fatalf("coordd run --explain-timing: %v: %s", err, contents(p.err))
	}
	all := map[string]bound{}
	for _, c := range said.Cases {
		all[c.Key] = c
	}
	return all
}

type bound struct {
	Key, Formula string
	Seconds      float64
}

func (b bound) time() time.Duration { return time.Duration(b.Seconds * float64(time.Second)) }
