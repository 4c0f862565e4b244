//go:build linux

package deploy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/coordd/coordd/internal/testkit"
)

// binary is coordd, built for these tests.
var binary string

func TestMain(m *testing.M) { goleak.VerifyTestMain(built{m}) }

// built builds the binary before the first test.
type built struct{ m *testing.M }

func (b built) Run() int {
	dir, err := os.MkdirTemp("", "coordd-deploy-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "coordd")
	if err := testkit.Build(binary); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return b.m.Run()
}
