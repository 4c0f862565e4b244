//go:build unix && !linux

package guard

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// Other systems than Linux know no death signal, no adoption of orphans and no cgroups: there, all
// of this is about process groups, and both clocks are the wall clock.

func selfExe() (string, error) { return os.Executable() }

func bootNanos() int64 { return time.Now().UnixNano() }

// CheckHost is for Linux.
func CheckHost() error { return nil }

func settle() error { return nil }

func becomeSubreaper() error { return nil }

func unblockSignals() {}

func childAttr(*os.File) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// payloadFile returns a file that reads as data and has no name any more.
func payloadFile(data []byte) (*os.File, error) {
	if len(data) == 0 {
		return os.Open(os.DevNull)
	}
	f, err := os.CreateTemp("", "coordd-payload-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return filled(f, data)
}

func children() ([]int, error) { return nil, nil }

func environOf(int) []string { return nil }

const cgroupPrefix = "coordd-guard."

type cgroups string

func newCgroups() (cgroups, error) { return "", errors.New("this system has none") }

func (cgroups) make(uint64) (*os.File, error) { return nil, errors.ErrUnsupported }
func (cgroups) kill(uint64)                   {}
func (cgroups) members(uint64) []int          { return nil }
func (cgroups) populated(uint64) bool         { return false }
func (cgroups) remove(uint64)                 {}
func (cgroups) close()                        {}

func killCgroup(string)     {}
func populated(string) bool { return false }
func removeCgroup(string)   {}
