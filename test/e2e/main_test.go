//go:build linux

// Package e2e_test runs the coordd binary against a real Consul server, as its user would: it gives
// command lines and signals, and reads what the commands print and what the work itself writes
// down. Each test is named after the sentence that it holds coordd to.
//
// The work of an item is a shell that writes its start and its end into a pipe. The order in which
// the lines come out of it is the one in which they were written, so the checker (ledger_test.go)
// sees two at once whoever they are, and it looks at every line of every test: never two at once,
// tokens that rise, the right payload.
//
// What is not seen here: two members that overlap by less than a shell needs to write a line, and
// two hosts with clocks of their own. The simulation is for these.
package e2e_test

import (
	"errors"
	"flag"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/realconsul"
)

// The binary under test, and a directory that outlives every test: processes on their way out may
// still write into it. Nobody writes to the pipe hold: work reads from it, and so waits at no cost.
var binary, scratch, hold string

func TestMain(m *testing.M) {
	if dir := os.Getenv("E2E_SERVE"); dir != "" {
		serveItems(dir) // this process plays the service beside a member
		return
	}
	flag.Parse()
	// Under nohup the programs would inherit that SIGHUP is ignored, and in the background of a
	// script SIGINT. A caught signal is not inherited.
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	// Most of the time here is waiting for a lease or a session to end. With 64 at once two cores
	// have so many processes to start and to end that Consul does not answer within its 3 s; with
	// 12 all of it takes no longer.
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(realconsul.M(testkit.Prepared{Tests: m, Name: "e2e",
		Make: func(dir string) error {
			scratch, binary, hold = dir, filepath.Join(dir, "coordd"), filepath.Join(dir, "hold")
			return errors.Join(syscall.Mkfifo(hold, 0o600), testkit.Build(binary))
		}}))
}

var must = testkit.Must
