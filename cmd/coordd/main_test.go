package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

// TestMain makes the test binary serve as coordd in the scripts, and holds the
// tests to leaving no goroutine behind.
func TestMain(m *testing.M) {
	os.Setenv("GODEBUG", "tracebacklabels=1")
	coordd := func() { os.Exit(start()) }
	testscript.Main(leakChecked{m}, map[string]func(){
		"coordd":      coordd,
		"coord-guard": coordd, // what the guard process calls itself
	})
}

type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	code := l.m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
