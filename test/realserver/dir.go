//go:build unix

package realserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

const (
	memory = "/dev/shm"
	// enough is how many free bytes the memory's file system needs: several servers' files.
	enough = 2 << 30
	prefix = "coordd-server-"
)

// Dir makes a directory for a server's files; remove removes it. It is in memory where this machine
// has enough of that. A server waits for its disk at each write, and one that a compiler keeps busy
// has made Consul wait for more than ten seconds. What is tried here does not depend on the disk: a
// killed server finds its files again, as long as the machine lives.
//
// Directories that killed test processes have left in memory are removed: nobody holds the lock on
// them any more.
func Dir() (dir string, remove func() error, err error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(memory, &fs); err == nil && fs.Bavail*uint64(fs.Bsize) >= enough {
		sweep()
		if dir, remove, err = lockedDir(memory); err == nil {
			return dir, remove, nil
		}
	}
	return lockedDir(os.TempDir())
}

func lockedDir(root string) (dir string, remove func() error, err error) {
	if dir, err = os.MkdirTemp(root, prefix+"*"); err != nil {
		return "", nil, fmt.Errorf("realserver: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("realserver: %w", err), os.RemoveAll(dir))
	}
	return dir, func() error { return errors.Join(os.RemoveAll(dir), lock.Close()) }, nil
}

// lockDir takes the lock on a directory, which ends with this process.
func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// TestDir makes a directory for a server's files, until the test has ended.
func TestDir(t testing.TB) string {
	t.Helper()
	dir, remove, err := Dir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remove(); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// sweep removes what processes have left that are no more. A directory that is a moment old may not
// be locked yet.
func sweep() {
	left, _ := filepath.Glob(filepath.Join(memory, prefix+"*"))
	for _, dir := range left {
		if info, err := os.Stat(dir); err != nil || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		if lock, err := lockDir(dir); err == nil {
			_ = os.RemoveAll(dir)
			lock.Close()
		}
	}
}
