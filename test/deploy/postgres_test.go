//go:build linux && coordd_long

package deploy_test

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/coordd/coordd/internal/testkit"
)

// database is a real PostgreSQL server, without TCP, for one test.
type database struct {
	t   *testing.T
	env []string // for psql
}

// postgresProgram is the path of a program of the newest server that Debian's packages have put
// here. They are not in PATH.
func postgresProgram(t *testing.T, name string) string {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	must(t, err)
	if len(found) == 0 {
		t.Fatalf("no %s below /usr/lib/postgresql: run test/tools.sh, or install it (Debian, "+
			"Ubuntu: apt-get install --no-install-recommends postgresql)", name)
	}
	return slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })
}

// version is the number in /usr/lib/postgresql/15/bin/postgres.
func version(path string) int {
	n, _ := strconv.Atoi(strings.Split(path, "/")[4])
	return n
}

// newDatabase starts a server. It refuses to run as root, so then it runs as its package's user.
func newDatabase(t *testing.T, s *stage) *database {
	t.Helper()
	dir, err := os.MkdirTemp("", "coordd-pg-") // t.TempDir is for this user alone
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	var as *syscall.Credential
	if os.Geteuid() == 0 {
		as = credential(t, "postgres")
		must(t, os.Chown(dir, int(as.Uid), int(as.Gid)))
	}
	data := filepath.Join(dir, "data")
	made := exec.Command(postgresProgram(t, "initdb"), "--pgdata", data, "--username=test",
		"--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8")
	made.Dir, made.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
	if out, err := made.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	server := exec.Command(postgresProgram(t, "postgres"), "-D", data, "-k", dir, "-h", "",
		"-c", "fsync=off")
	server.Dir, server.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
	said := &testkit.Output{}
	server.Stdout, server.Stderr = said, said
	child, err := testkit.StartChild(server)
	must(t, err)
	t.Cleanup(func() {
		_ = syscall.Kill(child.PID, syscall.SIGQUIT) // "immediate": its processes with it
		<-child.Exited
		if t.Failed() {
			t.Logf("--- PostgreSQL:\n%s", testkit.Tail(said.String(), 20))
		}
	})
	d := &database{t: t, env: []string{"PGHOST=" + dir, "PGUSER=test", "PGDATABASE=postgres"}}
	testkit.Await(t, limit, "PostgreSQL", func() string {
		if out, err := d.psql("--command", "SELECT 1"); err != nil {
			return testkit.Instead(out + said.String())
		}
		return ""
	})
	return d
}

// credential is that of a user of this host.
func credential(t *testing.T, name string) *syscall.Credential {
	t.Helper()
	u, err := user.Lookup(name)
	must(t, err)
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err1 != nil || err2 != nil {
		t.Fatalf("%s: %v, %v", name, err1, err2)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func (d *database) psql(args ...string) (string, error) {
	cmd := exec.CommandContext(d.t.Context(), "psql", append([]string{"--no-psqlrc", "--quiet",
		"--tuples-only", "--no-align", "-v", "ON_ERROR_STOP=1"}, args...)...)
	cmd.Env = append(testkit.Environ("PG"), d.env...)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (d *database) query(sql string) string {
	d.t.Helper()
	out, err := d.psql("--command", sql)
	if err != nil {
		d.t.Fatalf("%s: %v\n%s", sql, err, out)
	}
	return out
}

func TestAConsumerOfAnotherTenureWritesNothingToPostgreSQL(t *testing.T) {
	s := newStage(t)
	d := newDatabase(t, s)
	if out, err := d.psql("--single-transaction", "--file",
		"../../docs/examples/postgres/schema.sql"); err != nil {
		t.Fatalf("schema: %v\n%s", err, out)
	}
	consumer, err := filepath.Abs("../../docs/examples/postgres/consumer.sh")
	must(t, err)
	run := func(id string) *process {
		return s.start(binary, append([]string{"PAUSE=0.05", "RUNTIME_DIRECTORY=" + t.TempDir()},
			d.env...), "run", "--service", "queues", "--id", id, "--exec", "exec "+consumer)
	}
	// done are the tokens under which a member did jobs.
	done := func(id string) (tokens []uint64) {
		t.Helper()
		testkit.Await(t, limit, "a job of "+id, func() string {
			tokens = nil
			for word := range strings.FieldsSeq(d.query("SELECT DISTINCT split_part(done, ' ', 2)" +
				" FROM jobs WHERE done LIKE '" + id + " %'")) {
				token, err := strconv.ParseUint(word, 10, 64)
				must(t, err)
				tokens = append(tokens, token)
			}
			if len(tokens) == 0 {
				return "none is done"
			}
			return ""
		})
		return tokens
	}
	fill := "INSERT INTO jobs (queue) SELECT 'mails' FROM generate_series(1, 10)"
	d.query(fill)
	s.coordd("work", "add", "mails", "--service", "queues")
	n1 := run("n1")
	first := done("n1")
	n2 := run("n2")
	s.awaitMember("queues", "n2")
	n1.stop()
	d.query(fill)
	second := done("n2")
	if len(first) != 1 || len(second) != 1 || second[0] <= first[0] {
		t.Errorf("n1 worked under the tokens %d, n2 under %d", first, second)
	}

	// The owner of before comes back from a pause of its host, and goes on.
	late := exec.CommandContext(t.Context(), consumer)
	late.Env = append(append(testkit.Environ("PG"), d.env...), "COORDD_ITEM=mails",
		"COORDD_MEMBER=late", fmt.Sprintf("COORDD_TOKEN=%d", first[0]))
	out, err := late.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "is older than one that has written") {
		t.Errorf("a write with the token of before: %v\n%s", err, out)
	}
	if n := d.query("SELECT count(*) FROM jobs WHERE done LIKE 'late%'"); n != "0" {
		t.Errorf("it did %s jobs", n)
	}
	n2.stop()
}
