//go:build linux

package deploy_test

import (
	"path/filepath"
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
