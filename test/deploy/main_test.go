//go:build linux

package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/coordd/coordd/internal/testkit"
)

// binary is coordd, built for these tests.
var binary string

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(testkit.Prepared{Tests: m, Name: "deploy", Make: func(dir string) error {
		binary = filepath.Join(dir, "coordd")
		return testkit.Build(binary)
	}})
}

var must = testkit.Must

// said runs a tool that has nothing to say of what is right, and returns what it says all the same.
func said(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(testkit.Environ("COORDD_", "CONSUL_"), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", strings.Join(append([]string{name}, args...), " "), err, out)
	}
	return string(out)
}

// shipped reads a file of docs.
func shipped(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../docs", name))
	must(t, err)
	return string(b)
}
