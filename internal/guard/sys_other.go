//go:build unix && !linux

package guard

import (
	"crypto/rand"
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// selfExe is empty: os.Executable is asked.
const selfExe = ""

// bootNanos falls back to the wall clock: there is no other that two processes share everywhere.
func bootNanos() int64 { return time.Now().UnixNano() }

// HidesProcesses is for Linux.
func HidesProcesses() bool { return false }

func settle() error { return nil }

func childAttr(*os.File) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// Orphans go to process 1 here.
func adoptOrphans() error              { return nil }
func killAdopted(int, func(int)) error { return nil }

// signalExactly sends to pid if it is still what still says.
func signalExactly(pid int, sig syscall.Signal, still func() bool) error {
	if !still() {
		return os.ErrProcessDone
	}
	return syscall.Kill(pid, sig)
}

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
	if _, err := f.Write(data); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Orphans go to process 1 here, so there are none to look for.
func children() ([]int, error) { return nil, nil }
func childless() bool          { return true }

func commandOf(int, string) (id uint64, is bool, _ error) { return 0, false, nil }

func newToken() string { return rand.Text() }

func seesItself() error { return nil }

func nameOf(int, string) string { return "" }

func tokenDead(string) bool { return false }

type census struct{}

func frozen(string) int { return 0 }

func killMarked(*census, func(string) claim, []string, time.Duration) (
	total int, keeps bool, _ error) {
	return 0, false, nil
}

func (*sweep) round(string, []uint64, func(int, uint64, uint64, func() error)) (bool, error) {
	return false, errors.ErrUnsupported
}

func setLimit(string) {}

func limits(int, string) bool { return false }

func (*watch) killByNumber(remains) {}

func setCommandLimit(string, uint64) {}

// killLeftovers kills the process groups that the guard process left, and adds those still there to
// left.
func (w *watch) killLeftovers(left remains) error {
	for g, id := range w.l.started() {
		if syscall.Kill(-g, syscall.SIGKILL) == nil {
			left.add(g, id)
		}
	}
	return nil
}
