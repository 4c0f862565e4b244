package testkit

import (
	"fmt"
	"os"
)

// Prepared is a test binary that makes something in a directory of its own before its first test.
// The directory, which outlives every test, goes after the last one.
type Prepared struct {
	Tests interface{ Run() int } // a [testing.M]
	Name  string                 // of the directory, in part
	Make  func(dir string) error
}

// Run makes it and runs the tests. It returns the exit code.
func (p Prepared) Run() int {
	dir, err := os.MkdirTemp("", "coordd-"+p.Name+"-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = p.Make(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return p.Tests.Run()
}
