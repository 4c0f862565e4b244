//go:build linux

package deploy_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit"
)

// limit is for a machine that runs other tests too.
const limit = 2 * time.Minute

// stage has an embedded Consul, and starts what takes part.
type stage struct {
	t      *testing.T
	consul string
}

// process is one that takes part.
type process struct {
	*testkit.Child
	t        *testing.T
	out, err *testkit.Output
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t}
	consul := s.start(binary, nil, "dev", "--consul-only", "--consul-addr", "127.0.0.1:0")
	at := regexp.MustCompile(`http://(\S+);`)
	testkit.Await(t, limit, "the embedded Consul", func() string {
		if found := at.FindStringSubmatch(consul.out.String()); found != nil {
			s.consul = found[1]
			return ""
		}
		return "it says: " + consul.err.String()
	})
	return s
}

// start starts a program, which ends with the test.
func (s *stage) start(path string, env []string, args ...string) *process {
	s.t.Helper()
	p := &process{t: s.t, out: &testkit.Output{}, err: &testkit.Output{}}
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = p.out, p.err
	cmd.Env = append(testkit.Environ("COORDD_", "CONSUL_"), env...)
	if s.consul != "" {
		cmd.Env = append(cmd.Env, "CONSUL_HTTP_ADDR="+s.consul)
	}
	child, err := testkit.StartChild(cmd)
	if err != nil {
		s.t.Fatal(err)
	}
	p.Child = child
	s.t.Cleanup(func() {
		p.Kill()
		if s.t.Failed() {
			s.t.Logf("--- %s %q: %s\n%s", filepath.Base(path), args, p.out, testkit.Tail(
				p.err.String(), 20))
		}
	})
	return p
}

// stop tells it to stop, which it has to do cleanly.
func (p *process) stop() {
	p.t.Helper()
	if err := syscall.Kill(p.PID, syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.Exited:
		if p.Code != 0 {
			p.t.Errorf("exit code %d: %s", p.Code, p.err)
		}
	case <-time.After(limit):
		p.t.Errorf("it still runs: %s", p.err)
	}
}

// coordd runs an operator's command.
func (s *stage) coordd(args ...string) string {
	s.t.Helper()
	return said(s.t, []string{"CONSUL_HTTP_ADDR=" + s.consul}, binary, args...)
}

// awaitMember waits until a service has a member.
func (s *stage) awaitMember(service, id string) {
	s.t.Helper()
	testkit.Await(s.t, limit, "member "+id, func() string {
		if out := s.coordd("status", "--service", service); !strings.Contains(out, id+" ") {
			return testkit.Instead(out)
		}
		return ""
	})
}

// example builds one.
func example(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	said(t, nil, "go", "build", "-o", path, "../../docs/examples/"+name)
	return path
}

func TestTheShellWorkersKeepTheResultsOfTheLastOwner(t *testing.T) {
	s := newStage(t)
	results := t.TempDir()
	worker, err := filepath.Abs("../../docs/examples/shell/worker.sh")
	must(t, err)
	run := func(id string) *process {
		return s.start(binary, []string{"RESULTS=" + results, "RUNTIME_DIRECTORY=" + t.TempDir()},
			"run", "--service", "demo", "--id", id, "--exec", "exec "+worker)
	}
	result := func(item, owner string) (token uint64) {
		t.Helper()
		testkit.Await(t, limit, item+" by "+owner, func() string {
			b, err := os.ReadFile(filepath.Join(results, item))
			parts := strings.Fields(string(b))
			if err != nil || len(parts) != 3 || parts[1] != owner {
				return fmt.Sprintf("%q (%v)", b, err)
			}
			token, err = strconv.ParseUint(parts[0], 10, 64)
			return errorText(err)
		})
		return token
	}
	n1 := run("n1")
	s.coordd("work", "add", "device-1", "--payload", "0.1", "--service", "demo")
	first := result("device-1", "n1")
	n2 := run("n2")
	s.awaitMember("demo", "n2")
	n1.stop()
	if second := result("device-1", "n2"); second <= first {
		t.Errorf("n2 has the token %d, n1 had %d", second, first)
	}
	if !strings.Contains(n1.err.String(), "device-1: given up") {
		t.Errorf("the worker of n1 was not told: %s", n1.err)
	}

	// A late write of the first owner is refused.
	late := exec.Command(worker)
	late.Stdin = strings.NewReader("0.1")
	late.Env = append(os.Environ(), "RESULTS="+results, "COORDD_ITEM=device-1", "COORDD_MEMBER=n1",
		"COORDD_TOKEN="+strconv.FormatUint(first, 10))
	if out, err := late.CombinedOutput(); err == nil || !strings.Contains(string(out),
		"not written") {
		t.Errorf("a write with an older token: %v\n%s", err, out)
	}
	n2.stop()
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestTheGoHostRunsItemsAndServesTheirPage(t *testing.T) {
	s := newStage(t)
	at := freeAddresses(t, 1)[0]
	host := s.start(example(t, "gohost"), nil, "-id", "n1", "-listen", at)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: limit}
	get := func(path string) (int, string) {
		answer, err := client.Get("http://" + at + path)
		if err != nil {
			return 0, err.Error()
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		return answer.StatusCode, string(text) + errorText(err)
	}
	await := func(path string, want *regexp.Regexp) {
		t.Helper()
		testkit.Await(t, limit, path, func() string {
			if status, text := get(path); status != http.StatusOK || !want.MatchString(text) {
				return fmt.Sprintf("%d: %s", status, text)
			}
			return ""
		})
	}
	await("/healthz", regexp.MustCompile(`^ok`))
	s.coordd("work", "add", "device-1", "device-2", "--service", "gohost")
	await("/items", regexp.MustCompile(`^device-1 [1-9]\d*\ndevice-2 [1-9]\d*\n$`))
	await("/coordd/", regexp.MustCompile(`(?i)<!doctype html>`))
	await("/coordd/v1/status", regexp.MustCompile(`"device-1"|"owned": ?2`))
	s.coordd("work", "rm", "device-1", "--service", "gohost")
	await("/items", regexp.MustCompile(`^device-2 \d+\n$`))
	host.stop()
	if out := s.coordd("items", "--service", "gohost"); strings.Contains(out, "n1 ") {
		t.Errorf("after its stop:\n%s", out)
	}
}

func TestTheLeaderJobRunsOnOneMachineAndThenOnTheNext(t *testing.T) {
	s := newStage(t)
	path := example(t, "leaderjob")
	report := regexp.MustCompile(`report by (n\d), token (\d+)`)
	leads := func(p *process, name string) (token uint64) {
		t.Helper()
		testkit.Await(t, limit, name+" reports", func() string {
			found := report.FindStringSubmatch(p.out.String())
			if found == nil || found[1] != name {
				return "it says: " + p.out.String() + p.err.String()
			}
			token, _ = strconv.ParseUint(found[2], 10, 64)
			return ""
		})
		return token
	}
	n1 := s.start(path, nil, "-name", "n1", "-every", "50ms")
	first := leads(n1, "n1")
	n2 := s.start(path, nil, "-name", "n2", "-every", "50ms")
	testkit.Await(t, limit, "n2 waits", func() string {
		if out := s.coordd("elect", "nightly-report", "--status"); !strings.Contains(out, "n2") {
			return testkit.Instead(out)
		}
		return ""
	})
	if out := n2.out.String(); out != "" {
		t.Errorf("n2 reports beside n1: %s", out)
	}
	n1.stop()
	if second := leads(n2, "n2"); second <= first {
		t.Errorf("n2 has the token %d, n1 had %d", second, first)
	}
	n2.stop()
}
