package store_test

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"reflect"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit"
)

func TestValuesComeBackAsTheyWere(t *testing.T) {
	p := store.Process{Instance: "i", Host: "h", BootID: "b", PIDNamespace: "pid:[1]", PID: 7,
		StartTime: 1 << 60}
	record := store.MemberRecord{Status: store.StatusLeaving, Address: "h:1", Capacity: 1<<64 - 1,
		Zone: "z", Version: "v", Process: p}
	if got, err := store.ParseMemberRecord(record.Encode()); err != nil || got != record {
		t.Errorf("record %+v, error %v", got, err)
	}
	a := store.Assignment{State: store.StateRel, Session: "s", Reason: "<balance> & \"more\""}
	if got, err := store.ParseAssignment(a.Encode()); err != nil || got != a {
		t.Errorf("assignment %+v, error %v", got, err)
	}
	ack := store.Ack{Counter: 9, Session: "s", By: p, Clear: true, TTL: 10 * time.Second}
	if got, err := store.ParseAck(ack.Encode()); err != nil || got != ack {
		t.Errorf("ack %+v, error %v", got, err)
	}
}

func TestTheNamesOfFieldsAreTheContract(t *testing.T) {
	for got, want := range map[string]string{
		string(store.Assignment{State: "own", Session: "s",
			Reason: "r"}.Encode()): `{"s":"own","to":"s","why":"r"}`,
		string(store.Ack{Counter: 3}.Encode()): `{"n":3}`,
		string(store.MemberRecord{Status: "alive", Address: "h:1",
			Process: store.Process{Instance: "i", Host: "h", BootID: "b", PIDNamespace: "n", PID: 1,
				StartTime: 2}}.Encode()): `{"status":"alive","host_address":"h:1","process":{"instance":"i","host":"h","boot":"b","pidns":"n","pid":1,"start":2}}`,
	} {
		if got != want {
			t.Errorf("encoded %s, want %s", got, want)
		}
	}
}

func TestBareWordsAreAccepted(t *testing.T) {
	if r, err := store.ParseMemberRecord([]byte(" alive\n")); err != nil ||
		r.Status != store.StatusAlive {
		t.Errorf("alive: %+v, %v", r, err)
	}
	if a, err := store.ParseAssignment([]byte("own")); err != nil ||
		a != (store.Assignment{State: "own"}) {
		t.Errorf("own: %+v, %v", a, err)
	}
	if a, err := store.ParseAck([]byte("12\n")); err != nil || a != (store.Ack{Counter: 12}) {
		t.Errorf("12: %+v, %v", a, err)
	}
}

func TestUnknownFieldsAreIgnoredAndBadValuesAreNamed(t *testing.T) {
	if a, err := store.ParseAssignment([]byte(`{"s":"own","new":{"x":[1]}}`)); err != nil ||
		a.State != "own" {
		t.Errorf("with an unknown field: %+v, %v", a, err)
	}
	for value, says := range map[string]string{"": "not a JSON object", "dead": `"dead"`,
		"null": "not a JSON object", "[]": "not a JSON object",
		`{"s":`: "does not parse", `{"s":"lost"}`: `state is "lost"`, `{"s":1}`: "does not parse",
		"{}": `state is ""`} {
		_, err := store.ParseAssignment([]byte(value))
		wantKind(t, err, store.ErrInvalid, false)
		wantText(t, err, "assignment", says)
	}
	_, err := store.ParseMemberRecord([]byte(`{"status":"zombie"}`))
	wantKind(t, err, store.ErrInvalid, false)
	wantText(t, err, "zombie")
	_, err = store.ParseAck([]byte(`-1`))
	wantKind(t, err, store.ErrInvalid, false)
}

func FuzzValuesParse(f *testing.F) {
	for _, seed := range []string{"", "alive", "own", "7", `{"s":"own"}`,
		`{"status":"alive","process":{"pid":1}}`, `{"n":1,"by":{}}`, "{", "null",
		`{"status":"alive","capacity":-1}`, "\xff"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		if r, err := store.ParseMemberRecord(value); err == nil {
			again(t, r, r.Encode(), store.ParseMemberRecord)
		}
		if a, err := store.ParseAssignment(value); err == nil {
			again(t, a, a.Encode(), store.ParseAssignment)
		}
		if a, err := store.ParseAck(value); err == nil {
			again(t, a, a.Encode(), store.ParseAck)
		}
	})
}

func again[T any](t *testing.T, want T, encoded []byte, parse func([]byte) (T, error)) {
	t.Helper()
	if got, err := parse(encoded); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s parses as %+v (error %v), want %+v", encoded, got, err, want)
	}
}

func TestAProcessOfThisHostIsAliveOrDead(t *testing.T) {
	self := store.Self("me")
	if self.Instance != "me" || self.PID != os.Getpid() || self.StartTime == 0 ||
		self.BootID == "" || self.PIDNamespace == "" || self.Host == "" {
		t.Fatalf("Self is incomplete: %+v", self)
	}
	if got := self.Liveness(); got != store.Alive {
		t.Errorf("this process is %v", got)
	}
	reused := self
	reused.StartTime++
	if got := reused.Liveness(); got != store.Dead {
		t.Errorf("a process whose number was given to another is %v", got)
	}
	p, reap := child(t)
	if got := p.Liveness(); got != store.Dead {
		t.Errorf("a process that ended and was not reaped is %v", got)
	}
	must(t, reap())
	if got := p.Liveness(); got != store.Dead {
		t.Errorf("a process that ended is %v", got)
	}
}

// child runs a process to its end and says what it was; reap takes it from
// the process table.
func child(t *testing.T) (p store.Process, reap func() error) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=TestPrintSelf")
	cmd.Env = append(os.Environ(), "STORE_PRINT_SELF=1")
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	if err := json.NewDecoder(out).Decode(&p); err != nil {
		t.Fatal(err)
	}
	if got := p.Liveness(); got == store.Unknown {
		t.Errorf("another process of this host is %v", got)
	}
	// The end of its output comes a moment before the end of the process.
	io.Copy(io.Discard, out)
	testkit.Eventually(t, "it is dead", func() bool { return p.Liveness() == store.Dead })
	if p.PID == os.Getpid() || p.StartTime == 0 {
		t.Fatalf("the child says %+v", p)
	}
	return p, cmd.Wait
}

// TestPrintSelf is the child of the test above; alone it checks that Self can
// be encoded.
func TestPrintSelf(t *testing.T) {
	data, err := json.Marshal(store.Self("child"))
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("STORE_PRINT_SELF") != "" {
		os.Stdout.Write(append(data, '\n'))
	}
}

func TestNothingIsSaidOfOtherHostsAndUnknownProcesses(t *testing.T) {
	self := store.Self("me")
	for name, change := range map[string]func(*store.Process){
		"another host":      func(p *store.Process) { p.Host += "x" },
		"another boot":      func(p *store.Process) { p.BootID += "x" },
		"another namespace": func(p *store.Process) { p.PIDNamespace += "x" },
		"no boot":           func(p *store.Process) { p.BootID = "" },
		"no namespace":      func(p *store.Process) { p.PIDNamespace = "" },
		"no start time":     func(p *store.Process) { p.StartTime = 0 },
		"no pid":            func(p *store.Process) { p.PID = 0 },
		"a process group":   func(p *store.Process) { p.PID = -p.PID },
		"nothing":           func(p *store.Process) { *p = store.Process{} },
	} {
		p := self
		change(&p)
		if got := p.Liveness(); got != store.Unknown {
			t.Errorf("%s: %v, want unknown", name, got)
		}
	}
}
