//go:build linux

package guard_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/coordd/coordd/internal/guard"
)

// needCgroups skips a test where no process like this one can have cgroups, and says why: what
// holds without them is tested too. Where this process can make one, and is root or sees the top of
// the tree, a guard without is a fault of the code, or of how the tests were started.
func needCgroups(t *testing.T) {
	t.Helper()
	up := make(chan struct{}, 1)
	f := start(t, guard.Config{Up: func(context.Context) { up <- struct{}{} }})
	within(t, "up", up)
	has := f.g.Cgroup() != ""
	_ = f.stop()
	if has {
		return
	}
	const delegate = "where that is systemd's, put `systemd-run --scope -p Delegate=yes` in front"
	dir, top, err := ownCgroup()
	if err == nil {
		err = tryCgroup(dir)
	}
	switch {
	case err != nil:
		t.Skipf("this process cannot make cgroups (v2) here: %v", err)
	case !top && os.Geteuid() != 0:
		t.Skipf("the cgroup %s is not delegated; %s", dir, delegate)
	default:
		t.Fatalf("the guard has no cgroup, and its test can make one in %s; %s", dir, delegate)
	}
}

// ownCgroup finds the directory of this process's cgroup v2 by its process id, not as the guard
// does. Top says that nothing is above it.
func ownCgroup() (dir string, top bool, err error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "", false, err
	}
	found, pid := errors.New("found"), strconv.Itoa(os.Getpid())
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if len(f) < 3 || f[2] != "cgroup2" {
			continue
		}
		err := filepath.WalkDir(f[1], func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return nil // gone meanwhile
			}
			b, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
			if slices.Contains(strings.Fields(string(b)), pid) {
				dir, top = path, path == f[1]
				return found
			}
			return nil
		})
		if errors.Is(err, found) {
			return dir, top, nil
		}
	}
	return "", false, errors.New("no cgroup v2 is mounted that shows this process's")
}

// tryCgroup makes a cgroup in dir, starts a process in it, and kills it by it.
func tryCgroup(dir string) error {
	own, err := os.MkdirTemp(dir, "coordd-test.")
	if err != nil {
		return err
	}
	defer os.Remove(own)
	in, err := os.Open(own)
	if err != nil {
		return err
	}
	defer in.Close()
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(in.Fd()),
		Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a process in it: %w", err)
	}
	err = os.WriteFile(filepath.Join(own, "cgroup.kill"), []byte("1"), 0)
	if err != nil {
		_ = cmd.Process.Kill()
	}
	_ = cmd.Wait()
	return err
}
