//go:build linux && coordd_official

package official_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

var realServer = flag.String("official.consul", "",
	"the `path` of a real Consul to run the tests on; without it: the embedded server")

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == standIn {
		os.Exit(playConsul(os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}
