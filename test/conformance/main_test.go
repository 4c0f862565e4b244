// Package conformance_test holds the embedded server to the behaviour of a real one.
//
// testdata holds scripts of requests with the answers that a real Consul gave. Every script is
// played against the real server, so that the recording stays true, and against the embedded one,
// over a port and in process. What a script cannot say, or what takes long, is a case in Go that
// runs against the same three. Where the embedded server differs on purpose, differences_test.go
// says so and why; everything else is a defect.
//
// After a change to a script: `make record` writes the real server's answers into it, to be read as
// a diff.
package conformance_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"

	"github.com/coordd/coordd/test/realconsul"
)

var update = flag.Bool("update", false, "write the real server's answers into testdata")

func TestMain(m *testing.M) {
	flag.Parse()
	// Nearly all of the time here is waiting for a server: as many tests at once as there are cores
	// would take minutes.
	if err := flag.Set("test.parallel", "64"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(realconsul.M(m))
}
