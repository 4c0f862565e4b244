//go:build linux && coordd_takeover

package takeover_test

import (
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
	goleak.VerifyTestMain(realconsul.M(testkit.Prepared{Tests: m, Name: "takeover",
		Make: func(dir string) error {
			scratch, binary = dir, filepath.Join(dir, "coordd")
			return testkit.Build(binary)
		}}))
}
