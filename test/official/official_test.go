//go:build linux && coordd_official

package official_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/coordd/coordd/internal/testkit"
)

const clientModule = "github.com/hashicorp/consul/api"

// TestTheOfficialClientsTestsPass runs them in one go. On a real server none may fail.
func TestTheOfficialClientsTestsPass(t *testing.T) {
	t.Logf("%s %s", clientModule, listed(t, "{{.Version}}"))
	dir := listed(t, "{{.Dir}}")
	outcomes, rest := run(t, dir, append(testsOf(t, dir), beside...), consulFirst(t))
	passed := 0
	for _, name := range slices.Sorted(maps.Keys(outcomes)) {
		o, reason := outcomes[name], cannot[name]
		switch {
		case *realServer != "":
			reason = ""
		case reason != "" && o.result == "pass":
			t.Errorf("%s passes: take it from the list", name)
		}
		if o.result == "pass" {
			passed++
		} else if reason == "" {
			t.Errorf("%s: %q\n%s", name, o.result, testkit.Tail(o.output.String(), 60))
		}
	}
	for name := range cannot {
		if outcomes[name] == nil {
			t.Errorf("the list names %s, which %s does not have", name, clientModule)
		}
	}
	t.Logf("%d of %d pass", passed, len(outcomes))
	if t.Failed() {
		t.Logf("of no test:\n%s", rest)
	}
}

// listed is what `go list -m` says of the client's module.
func listed(t *testing.T, format string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", format,
		clientModule).Output()
	if err != nil {
		t.Fatalf("go list -m %s: %v", clientModule, err)
	}
	return strings.TrimSpace(string(out))
}

// testsOf lists the tests in the files.
func testsOf(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, file), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		before := len(names)
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Test") {
				names = append(names, f.Name.Name)
			}
		}
		if len(names) == before {
			t.Fatalf("%s has no tests any more: name the files that have them", file)
		}
	}
	return names
}

// consulFirst is a PATH in which the server under test is the first consul.
func consulFirst(t *testing.T) string {
	t.Helper()
	program, err := os.Executable()
	if *realServer != "" {
		program, err = filepath.Abs(*realServer)
	}
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(program, filepath.Join(bin, standIn)); err != nil {
		t.Fatal(err)
	}
	return bin + string(filepath.ListSeparator) + os.Getenv("PATH")
}

// outcome is how one test ended.
type outcome struct {
	result string // "pass", "fail", "skip"; empty: it has not ended
	output strings.Builder
}

// run runs the tests and returns once they and all servers that they started are gone. rest is what
// go test printed beside the tests' own output.
func run(t *testing.T, dir string, names []string, path string) (outcomes map[string]*outcome,
	rest string) {
	t.Helper()
	outcomes = make(map[string]*outcome)
	quoted := make([]string, len(names))
	for i, name := range names {
		outcomes[name], quoted[i] = &outcome{}, regexp.QuoteMeta(name)
	}
	// Each test waits for two seconds until its server is up, so many of them run at once.
	cmd := exec.Command("go", "test", "-json", "-count=1", "-vet=off", "-parallel=12",
		"-run=^("+strings.Join(quoted, "|")+")$", ".")
	cmd.Dir = dir
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Env = append(testkit.Environ("CONSUL_", "TEST_", "PATH=", "TMPDIR=", "GOWORK="),
		"PATH="+path, "TMPDIR="+t.TempDir(), "GOWORK=off")
	child, err := testkit.StartChild(cmd)
	if err != nil {
		t.Fatal(err)
	}
	<-child.Exited
	// The servers are of the child's process group. One that a failed test has left ends here.
	_ = syscall.Kill(-child.PID, syscall.SIGKILL)
	return outcomes, read(t, &stdout, outcomes) + stderr.String()
}

// read takes in what `go test -json` has printed, and returns what belongs to no test.
func read(t *testing.T, text *bytes.Buffer, outcomes map[string]*outcome) string {
	t.Helper()
	var rest strings.Builder
	for events := json.NewDecoder(text); ; {
		var e struct{ Action, Test, Output string }
		if err := events.Decode(&e); errors.Is(err, io.EOF) {
			return rest.String()
		} else if err != nil {
			t.Fatalf("go test -json: %v\n%s", err, rest.String())
		}
		top, _, isPart := strings.Cut(e.Test, "/")
		switch o := outcomes[top]; {
		case o == nil:
			rest.WriteString(e.Output)
		case !isPart && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip"):
			o.result = e.Action
		default:
			o.output.WriteString(e.Output)
		}
	}
}
