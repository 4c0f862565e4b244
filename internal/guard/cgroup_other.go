//go:build unix && !linux

package guard

import (
	"errors"
	"os"
)

// cgroups are Linux's.
type cgroups struct{ dir string }

func newCgroups(string) (*cgroups, error) {
	return nil, errors.New("there are no cgroups on this system")
}

func (*cgroups) make(uint64) (*os.File, error) { return nil, errors.ErrUnsupported }
func (*cgroups) command(int) (uint64, bool)    { return 0, false }
func (*cgroups) kill(uint64)                   {}
func (*cgroups) members(uint64) ([]int, bool)  { return nil, false }
func (*cgroups) remove(uint64)                 {}
func (*cgroups) close()                        {}

func killCgroup(string)                  {}
func killCgroups(string, remains) error  { return nil }
func cgroupMembers(string) ([]int, bool) { return nil, false }
func removeCgroup(string)                {}
