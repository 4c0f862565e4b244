package protocol_test

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/testkit"
)

func TestAProcessOfThisHostIsAliveOrDead(t *testing.T) {
	self := protocol.Self("me")
	if self.Instance != "me" || self.PID != os.Getpid() || self.StartTime == 0 ||
		self.BootID == "" || self.PIDNamespace == "" || self.Host == "" {
		t.Fatalf("Self is incomplete: %+v", self)
	}
	if got := self.Liveness(); got != protocol.Alive {
		t.Errorf("this process is %v", got)
	}
	reused := self
	reused.StartTime++
	if got := reused.Liveness(); got != protocol.Dead {
		t.Errorf("a process whose number was given to another is %v", got)
	}
	p, reap := child(t)
	if got := p.Liveness(); got != protocol.Dead {
		t.Errorf("a process that ended and was not reaped is %v", got)
	}
	must(t, reap())
	if got := p.Liveness(); got != protocol.Dead {
		t.Errorf("a process that ended is %v", got)
	}
}

// child runs a process to its end and says what it was; reap takes it from
// the process table.
func child(t *testing.T) (p protocol.Process, reap func() error) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=TestPrintSelf")
	cmd.Env = append(os.Environ(), "PROTOCOL_PRINT_SELF=1")
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	if err := json.NewDecoder(out).Decode(&p); err != nil {
		t.Fatal(err)
	}
	if got := p.Liveness(); got == protocol.Unknown {
		t.Errorf("another process of this host is %v", got)
	}
	// The end of its output comes a moment before the end of the process.
	io.Copy(io.Discard, out)
	testkit.Eventually(t, "it is dead", func() bool { return p.Liveness() == protocol.Dead })
	if p.PID == os.Getpid() || p.StartTime == 0 {
		t.Fatalf("the child says %+v", p)
	}
	return p, cmd.Wait
}

// TestPrintSelf is the child of the test above; alone it checks that Self can
// be encoded.
func TestPrintSelf(t *testing.T) {
	data, err := json.Marshal(protocol.Self("child"))
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("PROTOCOL_PRINT_SELF") != "" {
		os.Stdout.Write(append(data, '\n'))
	}
}

func TestNothingIsSaidOfOtherHostsAndUnknownProcesses(t *testing.T) {
	self := protocol.Self("me")
	for name, change := range map[string]func(*protocol.Process){
		"another host":      func(p *protocol.Process) { p.Host += "x" },
		"another machine":   func(p *protocol.Process) { p.Machine += "x" },
		"another boot":      func(p *protocol.Process) { p.BootID += "x" },
		"another namespace": func(p *protocol.Process) { p.PIDNamespace += "x" },
		// there it is a process that started at another time
		"another time namespace": func(p *protocol.Process) {
			p.TimeNamespace += "x"
			p.StartTime += 100_000
		},
		"no boot":         func(p *protocol.Process) { p.BootID = "" },
		"no namespace":    func(p *protocol.Process) { p.PIDNamespace = "" },
		"no start time":   func(p *protocol.Process) { p.StartTime = 0 },
		"no pid":          func(p *protocol.Process) { p.PID = 0 },
		"a process group": func(p *protocol.Process) { p.PID = -p.PID },
		"nothing":         func(p *protocol.Process) { *p = protocol.Process{} },
	} {
		p := self
		change(&p)
		if got := p.Liveness(); got != protocol.Unknown {
			t.Errorf("%s: %v, want unknown", name, got)
		}
	}
}
