//go:build linux

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/test/realconsul"
	"github.com/coordd/coordd/test/realzookeeper"
)

// duty is what a leader runs. The kernel's lock on a file shows two at once, whoever they are, and is free when its holder is dead.
const duty = `
exec 9>>"$E2E_DIR/lock"
flock -n 9 || echo "overlap $COORDD_MEMBER $COORDD_TOKEN" >>"$E2E_DIR/log"
echo "begin $COORDD_MEMBER $COORDD_TOKEN" >>"$E2E_DIR/log"
trap 'echo "end $COORDD_MEMBER $COORDD_TOKEN" >>"$E2E_DIR/log"; exit' TERM
while :; do sleep 0.05 9>&-; done
`

// electLimit is how long a candidate of these settings may take to lead after another was lost: twice the ttl and the lock-delay in Consul. The
// rest is for the machine.
const electLimit = 2*ttl + time.Second + workLimit

// One command runs at a time, and runs again elsewhere, whatever is killed or frozen: on Consul and on ZooKeeper.
func TestAnElectedCommandRunsOnOneMachineAtATime(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"consul", "zookeeper"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			e := &contest{t: t, dir: t.TempDir(), name: "report:" + store, candidates: map[string]*program{}}
			if store == "consul" {
				e.flags = []string{"--consul", realconsul.Shared(t).Addr(), "--prefix", realconsul.Prefix(t)}
			} else {
				e.flags = []string{"--zookeeper", realzookeeper.Start(t, realzookeeper.Options{}).Servers[0].Addr()}
			}
			e.run("n1")
			e.leads("n1")
			e.run("n2")
			e.run("n3", "--priority", "3")

			// kill -9 of coordd: its guard ends the command and gives the leadership up.
			begin := time.Now()
			e.candidates["n1"].kill()
			e.leads("n3")
			if took := time.Since(begin); took > soon {
				t.Errorf("n3 leads %v after n1 was killed: nobody gave the leadership up", took)
			}

			e.say("asked the leader of "+e.name+" to make way for n2", "--hand-over", "n2")
			e.leads("n2")

			// kill -9 of coordd and of its guard: the session has to expire.
			e.lose("n2")
			e.leads("n3")

			// SIGSTOP: its guard ends the command with the lease. It waits for its turn when it goes on.
			e.run("n4")
			e.candidates["n3"].signal(syscall.SIGSTOP)
			e.leads("n4")
			e.candidates["n3"].signal(syscall.SIGCONT)
			eventually(t, electLimit, "n3 waits", func() string { return e.unlike("n3", "waits") })

			e.candidates["n4"].signal(syscall.SIGTERM)
			if code, _ := e.candidates["n4"].ends(workLimit); code != 0 {
				t.Errorf("n4 was told to stop and ended with %d%s", code, tail(e.candidates["n4"].stderr(), 5))
			}
			e.leads("n3")
			e.say("ended "+e.name, "--end")
			if code, _ := e.candidates["n3"].ends(workLimit); code != 1 {
				t.Errorf("n3, whose election was ended, ended with %d%s", code, tail(e.candidates["n3"].stderr(), 5))
			}
			e.say("deleted "+e.name, "--delete")
			e.judge("n1", "n3", "n2", "n3", "n4", "n3")
		})
	}
}

// contest is an election with its candidates.
type contest struct {
	t          *testing.T
	dir, name  string
	flags      []string
	candidates map[string]*program
	terms      int // how many leaders there were
}

func (e *contest) run(id string, flags ...string) {
	e.t.Helper()
	args := append([]string{"elect", e.name, "--id", id, "--ttl", ttl.String(), "--lock-delay", "1s"}, e.flags...)
	e.candidates[id] = launch(e.t, []string{"E2E_DIR=" + e.dir, "E2E_MEMBER=" + id}, append(append(args, flags...), duty)...)
	eventually(e.t, workLimit, id+" is a candidate", func() string {
		if e.unlike(id, "waits") == "" {
			return ""
		}
		return e.unlike(id, "leads")
	})
}

// lose ends all that there is of a candidate, and none of it sees the rest go: as a lost machine does.
func (e *contest) lose(id string) {
	for _, s := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for _, pid := range marked(e.t, "E2E_DIR="+e.dir, "E2E_MEMBER="+id) {
			_ = syscall.Kill(pid, s)
		}
	}
	e.candidates[id].kill()
}

// unlike complains while a candidate's role is another one.
func (e *contest) unlike(id, role string) string {
	out, errs, _ := once(e.t, append([]string{"elect", e.name, "--status"}, e.flags...)...)
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == id && f[2] == role {
			return ""
		}
	}
	return out + errs
}

func (e *contest) say(want string, order ...string) {
	e.t.Helper()
	out, errs, code := once(e.t, append(append([]string{"elect", e.name}, e.flags...), order...)...)
	if code != 0 || !strings.Contains(out, want) {
		e.t.Fatalf("%v: exit code %d, %q, %q", order, code, out, errs)
	}
}

// leads waits until the next leader's command has begun, and it is that one's.
func (e *contest) leads(id string) {
	e.t.Helper()
	e.terms++
	eventually(e.t, electLimit, id+" leads", func() string {
		if begun := e.begun(); len(begun) < e.terms {
			return fmt.Sprint(begun)
		}
		return ""
	})
	if begun := e.begun(); begun[e.terms-1] != id {
		e.t.Fatalf("the commands began at %v; want %s last%s", begun, id, tail(contents(filepath.Join(e.dir, "log")), 20))
	}
}

// begun lists where commands began. One that was stopped with the lease and goes on under the same token, as its session turned out to live, is
// no other term.
func (e *contest) begun() []string {
	text, err := os.ReadFile(filepath.Join(e.dir, "log"))
	if err != nil {
		return nil
	}
	var members []string
	last := ""
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) == 3 && f[0] == "begin" && f[2] != last {
			members, last = append(members, f[1]), f[2]
		}
	}
	return members
}

// judge looks at all that the commands wrote.
func (e *contest) judge(want ...string) {
	text := contents(filepath.Join(e.dir, "log"))
	if got := e.begun(); fmt.Sprint(got) != fmt.Sprint(want) {
		e.t.Errorf("the commands ran at %v, want %v", got, want)
	}
	token := 0
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 3 || f[0] == "overlap" || f[0] == "begin" && atoi(f[2]) < token {
			e.t.Errorf("two at once, or a token that fell: %q in%s", line, tail(text, 40))
			break
		}
		token = max(token, atoi(f[2]))
	}
}
