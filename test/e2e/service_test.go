//go:build linux

package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/realconsul"
)

// work is what a user gives to --exec: one shell for each item and, since all in it is built in, no
// other process. It waits on a pipe that nobody writes to, and obeys the first SIGTERM.
const work = `
trap 'trap "" TERM; echo "stop $COORDD_ITEM $COORDD_TOKEN $$ $COORDD_MEMBER" >>"$E2E_JOURNAL"
	exit' TERM
read -r payload
echo "start $COORDD_ITEM $COORDD_TOKEN $$ $COORDD_MEMBER $payload" >>"$E2E_JOURNAL"
while :; do read -r never; done <>"$E2E_HOLD"
`

// service is one service's members, and the journal that their work writes.
type service struct {
	t            *testing.T
	name, consul string
	journal      string   // a pipe
	exec         string   // empty: none
	stderr       *os.File // of members that are started from now on; nil: a file of each one's own
	diaries      bool     // the members write histories, for verify
	env          []string // of members that are started from now on
	ended        bool
	members      map[string]*program

	mu     sync.Mutex
	ledger *ledger
}

// newService has no members yet. When the test ends they are told to stop, and must: with exit code
// 0 and nothing left.
func newService(t *testing.T, consul string) *service {
	t.Helper()
	dir, err := os.MkdirTemp(scratch, "service-")
	must(t, err)
	s := &service{
		t: t, name: filepath.Base(dir), consul: consul, exec: work,
		journal: filepath.Join(dir, "journal"),
		members: map[string]*program{}, ledger: newLedger(),
	}
	must(t, syscall.Mkfifo(s.journal, 0o600))
	// For writing too: so it never reads as ended, and whoever opens it never waits.
	f, err := os.OpenFile(s.journal, os.O_RDWR, 0)
	must(t, err)
	var reader sync.WaitGroup
	reader.Go(func() { s.read(f) })
	t.Cleanup(func() {
		s.end()
		f.Close()
		reader.Wait()
		if len(s.ledger.faults) > 0 {
			t.Errorf("%d faults, the first ones:\n%s", len(s.ledger.faults),
				strings.Join(s.ledger.faults[:min(10, len(s.ledger.faults))], "\n"))
		}
	})
	return s
}

func (s *service) read(f *os.File) {
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		e, err := parseEntry(lines.Text(), time.Now())
		s.mu.Lock()
		if err != nil {
			s.ledger.faults = append(s.ledger.faults, err.Error())
		} else {
			s.ledger.enter(e)
		}
		s.mu.Unlock()
	}
}

// start runs a member.
func (s *service) start(id string, flags ...string) *program {
	s.t.Helper()
	p := s.launch(id, flags...)
	s.members[id] = p
	return p
}

// launch runs a process that wants to be a member.
func (s *service) launch(id string, flags ...string) *program {
	s.t.Helper()
	args := append([]string{"run", "--service", s.name, "--consul", s.consul, "--id", id}, flags...)
	if s.exec != "" {
		args = append(args, "--exec", s.exec)
	} else {
		args = append(args, "--hold-items")
	}
	if s.diaries {
		args = append(args, "--history", s.history(id))
	}
	p := launchTo(s.t, s.stderr, binary,
		append([]string{"E2E_JOURNAL=" + s.journal, "E2E_HOLD=" + hold, "E2E_MEMBER=" + id},
			s.env...), args...)
	s.t.Cleanup(s.end) // before the cleanup of launch, which kills
	return p
}

// startThree runs n1, n2 and n3 and returns when all of them are registered and one leads.
func (s *service) startThree(flags ...string) {
	s.t.Helper()
	for _, id := range []string{"n1", "n2", "n3"} {
		s.start(id, flags...)
	}
	testkit.Await(s.t, startLimit, "three members and a leader", func() string {
		return s.now().unlike(3, 0)
	})
	s.seen()
}

// seen waits until the leader knows of all members, which may be a moment after they are registered
// and shown. What is added from then on is shared out among them, and need not move.
func (s *service) seen() {
	s.t.Helper()
	testkit.Await(s.t, startLimit, "the leader has seen all members", func() string {
		events := s.do("events")
		for id := range s.members {
			if !strings.Contains(events, " "+id+" joined\n") {
				return testkit.Instead(events)
			}
		}
		return ""
	})
}

// Limits for a machine that runs other tests too; what is promised in seconds is asserted apart
// from them.
const startLimit = 2 * time.Minute

// nightItems is how many items there are in the night. docs/night.md tells of nights with 100.
var nightItems = max(100, atoi(os.Getenv("COORDD_NIGHT_ITEMS")))

// workLimit is longer for a longer night.
var workLimit = time.Duration(max(2, nightItems/1000)) * time.Minute

// do runs a command of the operators' and returns its output.
func (s *service) do(args ...string) string {
	s.t.Helper()
	stdout, stderr, code := once(s.t, append(args, "--service", s.name, "--consul", s.consul)...)
	if code != 0 {
		s.t.Fatalf("coordd %s: exit code %d: %s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

// status is what `coordd status --json` promises.
type status struct {
	Service string
	Leader  *struct {
		ID    string
		Epoch uint64
	}
	Members []struct {
		ID, Address, Status string
		Items               int
	}
	Work struct{ Total, Owned, Releasing, Free int }
}

func (s *service) now() status {
	s.t.Helper()
	var st status
	// It ends with 1 where something is wrong, and says what.
	out, stderr, code := once(s.t, "status", "--json", "--service", s.name, "--consul", s.consul)
	if code > 1 || stderr != "" {
		s.t.Fatalf("coordd status --json: exit code %d: %s", code, stderr)
	}
	if err := json.Unmarshal([]byte(out), &st); err != nil {
		s.t.Fatalf("%v in %s", err, out)
	}
	if st.Service != s.name {
		s.t.Fatalf("the status of service %q is that of %q", s.name, st.Service)
	}
	return st
}

// unlike tells what is missing to a settled service of so many members and items, each within one
// of its share.
func (st status) unlike(members, items int) string {
	if st.Leader == nil || st.Leader.ID == "" || st.Leader.Epoch == 0 {
		return fmt.Sprintf("nobody leads: %+v", st)
	}
	if len(st.Members) != members {
		return fmt.Sprintf("%d members: %+v", len(st.Members), st)
	}
	leads := false
	for _, m := range st.Members {
		leads = leads || m.ID == st.Leader.ID
		if m.Status != "alive" || m.Address == "" || m.Items < items/members ||
			m.Items > (items+members-1)/members {
			return fmt.Sprintf("member %+v is not alive with its share of %d items: %+v", m, items,
				st)
		}
	}
	if !leads {
		return fmt.Sprintf("the leader is no member: %+v", st)
	}
	if w := st.Work; w.Total != items || w.Owned != items || w.Releasing != 0 || w.Free != 0 {
		return fmt.Sprintf("work: %+v", w)
	}
	return ""
}

// others are the ids of the members that run, but for those given.
func (s *service) others(not ...string) []string {
	ids := slices.Sorted(maps.Keys(s.members))
	return slices.DeleteFunc(ids, func(id string) bool {
		return slices.Contains(not, id) || !s.members[id].Running()
	})
}

// follower is the id of a member that does not lead.
func (s *service) follower() string { return s.others(s.now().Leader.ID)[0] }

// share imports items with a payload each, and returns their ids once each runs and every member
// has its share.
func (s *service) share(n int) []string {
	s.t.Helper()
	items := s.importItems(n)
	s.runs(items)
	testkit.Await(s.t, workLimit, "every member has its share", func() string {
		return s.now().unlike(len(s.others()), n)
	})
	return items
}

func (s *service) importItems(n int) []string {
	s.t.Helper()
	items := make([]string, n)
	var file strings.Builder
	s.mu.Lock()
	for i := range items {
		items[i] = fmt.Sprintf("item-%04d", i)
		s.ledger.payloads[items[i]] = "payload of " + items[i]
		fmt.Fprintf(&file, "%s\t%s\n", items[i], s.ledger.payloads[items[i]])
	}
	s.mu.Unlock()
	name := filepath.Join(s.t.TempDir(), "items.txt")
	if err := os.WriteFile(name, []byte(file.String()), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if out := s.do("work", "import", name); !strings.Contains(out, itoa(n)) {
		s.t.Fatalf("work import does not say how many: %q", out)
	}
	return items
}

// runs waits until these items run, and no others.
func (s *service) runs(items []string) time.Duration {
	s.t.Helper()
	return testkit.Await(s.t, workLimit, "every item runs", func() string {
		got := s.running()
		if slices.Equal(got, items) {
			return ""
		}
		return fmt.Sprintf("%d run, not %d", len(got), len(items))
	})
}

func (s *service) running() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.ledger.running))
}

func (s *service) of(member string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.of(member)
}

// mark is the present, for since.
func (s *service) mark() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ledger.entries)
}

func (s *service) since(mark int) story {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ledger.entries[mark:])
}

func (s *service) history(id string) string {
	return filepath.Join(filepath.Dir(s.journal), id+".history")
}

// verify has the members' histories judged.
func (s *service) verify() {
	s.t.Helper()
	args := []string{"verify"}
	for id := range s.members {
		args = append(args, s.history(id))
	}
	if out, stderr, code := once(s.t, args...); code != 0 {
		s.t.Errorf("coordd verify: exit code %d: %s%s", code, out, stderr)
	}
}

// left lists the processes of the service: its members, their guards and the work; or only those of
// one member.
func (s *service) left(id ...string) []int {
	marks := []string{"E2E_JOURNAL=" + s.journal}
	for _, id := range id {
		marks = append(marks, "E2E_MEMBER="+id)
	}
	return marked(s.t, marks...)
}

// end stops all members, once.
func (s *service) end() {
	if s.ended {
		return
	}
	s.ended = true
	for _, p := range s.members {
		if p.Running() {
			_ = syscall.Kill(p.PID, syscall.SIGCONT)
			_ = syscall.Kill(p.PID, syscall.SIGTERM)
		}
	}
	for id, p := range s.members {
		select {
		case <-p.Exited:
			if p.Code > 0 { // those that the test killed have -1
				s.t.Errorf("%s stopped with exit code %d", id, p.Code)
			}
		case <-time.After(workLimit):
			s.t.Errorf("%s did not stop within %v of SIGTERM", id, workLimit)
			p.Kill()
		}
	}
	var left []int
	_, why := testkit.Look(workLimit, func() string {
		if left = s.left(); len(left) == 0 {
			return ""
		}
		return fmt.Sprintf("%d processes are left, such as %s", len(left),
			strings.ReplaceAll(contents(fmt.Sprintf("/proc/%d/cmdline", left[0])), "\x00", " "))
	})
	if why != "" {
		s.t.Error(why)
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// said counts the lines that the members have logged with a message.
func (s *service) said(message string) int {
	n := 0
	for _, p := range s.members {
		n += strings.Count(p.stderr(), "msg="+message+" ")
	}
	return n
}

func await(t *testing.T, until time.Time) {
	t.Helper()
	select {
	case <-time.After(time.Until(until)):
	case <-t.Context().Done():
	}
}

func ready(t *testing.T, c *realconsul.Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), workLimit)
	defer cancel()
	must(t, c.WaitReady(ctx))
}

func (s *service) ownerOf() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	owners := map[string]string{}
	for item, e := range s.ledger.running {
		owners[item] = e.member
	}
	return owners
}
