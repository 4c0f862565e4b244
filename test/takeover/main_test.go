//go:build linux && coordd_takeover

package takeover_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/realconsul"
)

// The binary under test, and a directory for what the processes write.
var binary, scratch string

func TestMain(m *testing.M) {
	if kind := os.Getenv("TAKEOVER_CANDIDATE"); kind != "" {
		candidate(kind) // this process is one that wants to lead
		return
	}
	goleak.VerifyTestMain(realconsul.M(built{m}))
}

// built builds the binary before the first test.
type built struct{ m *testing.M }

func (b built) Run() int {
	dir, err := os.MkdirTemp("", "coordd-takeover-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	scratch, binary = dir, filepath.Join(dir, "coordd")
	if err := testkit.Build(binary); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return b.m.Run()
}
