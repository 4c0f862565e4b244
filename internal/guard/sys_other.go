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

func settle() error { return nil }

func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

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
func children() []int { return nil }

func marker(int) string { return "" }

func newToken() string { return rand.Text() }

func tokenDead(string) bool { return false }

func killMarked(func(string) bool, time.Duration) (total, left int) { return 0, 0 }

// killLeftovers kills the process groups that a dead guard left, and returns those still there.
func killLeftovers(_ int, _ string, groups []int) []int {
	var live []int
	for _, g := range groups {
		if syscall.Kill(-g, syscall.SIGKILL) == nil {
			live = append(live, g)
		}
	}
	return live
}
