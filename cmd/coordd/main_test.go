package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/coordd/coordd/internal/testkit"
)

// TestMain makes the test binary serve as coordd in the scripts, and holds the
// tests to leaving no goroutine behind.
func TestMain(m *testing.M) {
	os.Setenv("GODEBUG", "tracebacklabels=1")
	// The scripts wait for programs, and use a tenth of the time to compute.
	if err := flag.Set("test.parallel", "10"); err != nil {
		panic(err)
	}
	coordd := func() { os.Exit(start()) }
	testscript.Main(leakChecked{m}, map[string]func(){
		"coordd":      coordd,
		"coord-guard": coordd, // what the guard process calls itself
	})
}

type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	// Under nohup a hangup is ignored, by what this process starts as well, and in the background of
	// a script SIGINT is. The scripts send coordd both. What a process listens to is not ignored in
	// its children.
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	code := l.m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

var must = testkit.Must
