//go:build linux && coordd_long

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/realconsul"
	"github.com/coordd/coordd/test/realzookeeper"
)

// duty is what a leader runs. The kernel's lock on a file shows two at once, whoever they are, and
// is free when its holder is dead. Only flock's own word for that (99) is an overlap, and who holds
// the lock is written down; a flock that could not do its work is no witness.
const duty = `
exec 9>>"$E2E_DIR/lock"
flock -n -E 99 9
case $? in
0) ;;
99)
	echo "overlap $COORDD_MEMBER $COORDD_TOKEN" >>"$E2E_DIR/log"
	{
		grep ":$(stat -c %i "$E2E_DIR/lock") " /proc/locks
		for fd in $(find /proc/[0-9]*/fd -lname "$E2E_DIR/lock"); do
			p=${fd%/fd/*}
			[ $p != /proc/$$ ] && echo "$p $(cut -d' ' -f3-5 $p/stat) of $(
				tr '\0' '\n' <$p/environ |
				grep -E 'E2E_MEMBER|COORDD_TOKEN' | tr '\n' ' '): $(
				tr '\0' ' ' <$p/cmdline | cut -c1-60 | head -2)"
		done
	} >>"$E2E_DIR/holders" 2>/dev/null ;;
*) echo "no-witness $COORDD_MEMBER $COORDD_TOKEN" >>"$E2E_DIR/log" ;;
esac
echo "begin $COORDD_MEMBER $COORDD_TOKEN" >>"$E2E_DIR/log"
trap 'echo "end $COORDD_MEMBER $COORDD_TOKEN" >>"$E2E_DIR/log"; exit' TERM
while :; do read -r never; done <>"$E2E_HOLD"
`

// electLimit is how long a candidate of these settings may take to lead after another was lost:
// twice the ttl and the lock-delay in Consul. The rest is for the machine.
var electLimit = 2*ttl + time.Second + workLimit

// One command runs at a time, and runs again elsewhere, whatever is killed or frozen: on Consul and
// on ZooKeeper.
func TestAnElectedCommandRunsOnOneMachineAtATime(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"consul", "zookeeper", "zookeeper-with-credentials"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			e := &contest{t: t, dir: workDir(t), name: "report:" + store,
				candidates: map[string]*program{}}
			switch store {
			case "consul":
				e.flags = []string{"--consul", realconsul.Shared(t).Addr(), "--prefix",
					realconsul.Prefix(t)}
			case "zookeeper":
				e.flags = []string{"--zookeeper", realzookeeper.Start(t,
					realzookeeper.Options{}).Servers[0].Addr()}
			default:
				e.flags = secured(t)
			}
			e.run("n1")
			e.leads("n1")
			e.run("n2")
			e.run("n3", "--priority", "3")

			// kill -9 of coordd: its guard ends the command and gives the leadership up.
			begin := time.Now()
			e.candidates["n1"].Kill()
			e.leads("n3")
			if took := time.Since(begin); took > ttl {
				t.Errorf("n3 leads %v after n1 was killed: nobody gave the leadership up", took)
			}

			e.say("asked the leader of "+e.name+" to make way for n2", "--hand-over", "n2")
			e.leads("n2")

			// kill -9 of coordd and of its guard: the session has to expire.
			e.lose("n2")
			e.leads("n3")

			// SIGSTOP: its guard ends the command with the lease. It waits for its turn when it
			// goes on.
			e.run("n4")
			e.candidates["n3"].signal(syscall.SIGSTOP)
			e.leads("n4")
			e.candidates["n3"].signal(syscall.SIGCONT)
			testkit.Await(t, electLimit, "n3 waits", func() string {
				return e.unlike("n3", "waits")
			})

			e.candidates["n4"].signal(syscall.SIGTERM)
			if code, _ := e.candidates["n4"].ends(workLimit); code != 0 {
				t.Errorf("n4 was told to stop and ended with %d%s", code,
					tail(e.candidates["n4"].stderr(), 5))
			}
			e.leads("n3")
			e.say("ended "+e.name, "--end")
			if code, _ := e.candidates["n3"].ends(workLimit); code != 1 {
				t.Errorf("n3, whose election was ended, ended with %d%s", code,
					tail(e.candidates["n3"].stderr(), 5))
			}
			if store == "zookeeper-with-credentials" {
				e.deniedWithoutCredentials()
			}
			e.say("deleted "+e.name, "--delete")
			e.judge("n1", "n3", "n2", "n3", "n4", "n3")
		})
	}
}

// secured starts a ZooKeeper that takes clients over TLS, and returns the flags of one with a
// certificate and credentials. The last two are the credentials.
func secured(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	files, err := realconsul.MakeTLS(dir)
	must(t, err)
	both, auth := filepath.Join(dir, "both.pem"), filepath.Join(dir, "auth")
	for path, text := range map[string]string{both: contents(files.Key) + contents(files.Cert),
		auth: "coordd:secret\n"} {
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	server := realzookeeper.Start(t, realzookeeper.Options{KeyStore: both,
		TrustStore: files.CA}).Servers[0]
	return []string{"--zookeeper", server.SecureAddr(), "--zookeeper-ca-file", files.CA,
		"--zookeeper-cert-file", files.Cert, "--zookeeper-key-file", files.Key,
		"--zookeeper-auth-file", auth}
}

func (e *contest) deniedWithoutCredentials() {
	e.t.Helper()
	_, errs, code := once(e.t, append([]string{"elect", e.name, "--delete"},
		e.flags[:len(e.flags)-2]...)...)
	if code != 1 || !strings.Contains(errs, "--zookeeper-auth-file") {
		e.t.Errorf("without credentials the election is deleted: exit code %d, %q", code, errs)
	}
}

// contest is an election with its candidates.
type contest struct {
	t          *testing.T
	dir, name  string
	flags      []string
	times      []string // the settings of a candidate
	candidates map[string]*program
	terms      int // how many leaders there were
}

func (e *contest) run(id string, flags ...string) {
	e.t.Helper()
	times := e.times
	if times == nil {
		times = []string{"--ttl", ttl.String(), "--lock-delay", "1s"}
	}
	args := slices.Concat([]string{"elect", e.name, "--id", id}, times, e.flags)
	e.candidates[id] = launch(e.t, []string{"E2E_DIR=" + e.dir, "E2E_HOLD=" + hold, "E2E_MEMBER=" +
		id}, append(append(args, flags...), duty)...)
	testkit.Await(e.t, workLimit, id+" is a candidate", func() string {
		if e.unlike(id, "waits") == "" {
			return ""
		}
		return e.unlike(id, "leads")
	})
}

// lose ends all that there is of a candidate, and none of it sees the rest go: as a lost machine
// does. What is stopped is killed before anything else is looked for: to look through all processes
// takes a busy machine longer than a session lasts, and a stopped command holds its lock.
func (e *contest) lose(id string) {
	for {
		pids := marked(e.t, "E2E_DIR="+e.dir, "E2E_MEMBER="+id)
		if len(pids) == 0 {
			break
		}
		for _, s := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
			for _, pid := range pids {
				_ = syscall.Kill(pid, s)
			}
		}
	}
	e.candidates[id].Kill()
}

// unlike complains while a candidate's role is another one.
func (e *contest) unlike(id, role string) string {
	out, errs, _ := once(e.t, append([]string{"elect", e.name, "--status"}, e.flags...)...)
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == id && f[2] == role {
			return ""
		}
	}
	return testkit.Instead(out + errs)
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
	testkit.Await(e.t, electLimit, id+" leads", func() string {
		if begun := e.begun(); len(begun) < e.terms {
			return fmt.Sprint(begun)
		}
		return ""
	})
	if strings.Contains(contents(filepath.Join(e.dir, "log")), "overlap") {
		e.judge(e.begun()...) // now, while it can be seen who holds the lock
		e.t.FailNow()
	}
	if begun := e.begun(); begun[e.terms-1] != id {
		e.t.Fatalf("the commands began at %v; want %s last%s", begun, id,
			tail(contents(filepath.Join(e.dir, "log")), 20))
	}
}

// begun lists where commands began. One that was stopped with the lease and goes on under the same
// token, as its session turned out to live, is no other term.
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
		if len(f) != 3 || f[0] == "overlap" || f[0] == "no-witness" ||
			f[0] == "begin" && atoi(f[2]) < token {
			// there is one only after an overlap
			holders, _ := os.ReadFile(filepath.Join(e.dir, "holders"))
			e.t.Errorf("two at once, or a token that fell: %q in%s\nthe lock was held by "+
				"(process, state, parent, group):%s",
				line, tail(text, 40), tail(string(holders), 20))
			break
		}
		token = max(token, atoi(f[2]))
	}
}

// With --once a command begins once, also when its lease runs out and its session turns out to have
// lived.
func TestOnceRunsTheCommandOnce(t *testing.T) {
	t.Parallel()
	cluster := realconsul.Start(t, realconsul.Options{})
	e := &contest{t: t, dir: workDir(t), name: "once", candidates: map[string]*program{},
		flags: []string{"--consul", cluster.Addr()}}
	e.run("n1", "--once")
	e.leads("n1")
	must(t, cluster.Servers[0].Freeze())
	testkit.Await(t, electLimit, "the command ends with the lease", func() string {
		if text := contents(filepath.Join(e.dir, "log")); !strings.Contains(text, "end n1") {
			return testkit.Instead(text)
		}
		return ""
	})
	must(t, cluster.Servers[0].Thaw())
	if code, _ := e.candidates["n1"].ends(electLimit); code != 1 {
		t.Errorf("n1, whose lease was lost, ended with %d%s", code,
			tail(e.candidates["n1"].stderr(), 5))
	}
	if text := contents(filepath.Join(e.dir, "log")); strings.Count(text, "begin") != 1 {
		t.Errorf("with --once the command ran again:%s", tail(text, 20))
	}
}

// A command that ends while its coordd is frozen, until after the lease, has ended: it is not begun
// again when the session turns out to have lived.
func TestACommandThatEndsWhileItsCoorddIsFrozenHasEnded(t *testing.T) {
	t.Parallel()
	dir := workDir(t)
	log := filepath.Join(dir, "log")
	has := func(want string) func() string {
		return func() string {
			if text := contents(log); !strings.Contains(text, want) {
				return testkit.Instead(text)
			}
			return ""
		}
	}
	p := launch(t, []string{"E2E_DIR=" + dir}, "elect", "frozen", "--id", "n1", "--ttl",
		ttl.String(), "--lock-delay", "1s",
		"--consul", realconsul.Shared(t).Addr(), "--prefix", realconsul.Prefix(t),
		`echo begin >>"$E2E_DIR/log"; while [ ! -e "$E2E_DIR/go" ]; do sleep 0.1; done;`+
			` echo over >>"$E2E_DIR/log"; exit 7`)
	testkit.Await(t, electLimit, "the command begins", has("begin"))
	p.signal(syscall.SIGSTOP)
	frozen := time.Now()
	must(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	testkit.Await(t, workLimit, "the command ends", has("over"))
	// the lease is over, and the session lives for as long again
	time.Sleep(time.Until(frozen.Add(ttl)))
	p.signal(syscall.SIGCONT)
	if code, _ := p.ends(electLimit); code != 7 {
		t.Errorf("it ended with %d, want the command's 7%s", code, tail(p.stderr(), 5))
	}
	if text := contents(log); strings.Count(text, "begin") != 1 {
		t.Errorf("the command ran again:%s", tail(text, 20))
	}
}
