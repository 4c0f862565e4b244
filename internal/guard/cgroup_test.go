//go:build linux

package guard_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/coordd/coordd/internal/guard"
	"github.com/coordd/coordd/internal/testkit"
)

// cgroupsHere returns nil where a guard process must use cgroups: this process can make one, and is
// root or sees the top of the tree.
func cgroupsHere() error {
	dir, top, err := ownCgroup()
	if err == nil {
		err = tryCgroup(dir)
	}
	if err == nil && !top && os.Geteuid() != 0 {
		err = fmt.Errorf("the cgroup %s is not delegated: put `systemd-run --scope -p "+
			"Delegate=yes` in front", dir)
	}
	return err
}

// Where the machine offers cgroups, a guard process that does not use them is a fault of the code.
func TestTheWayInForceIsTheOneThatTheMachineOffersAndIsLogged(t *testing.T) {
	offered := cgroupsHere() == nil
	for way, none := range map[string]bool{"cgroup": false, "process-group": true} {
		if !offered {
			way = "process-group"
		}
		var log testkit.Output
		f := start(t, guard.Config{NoCgroups: none, Starts: 3,
			Logger: slog.New(slog.NewTextHandler(&log, nil))})
		out := f.path("out")
		must(t, f.Exec(t.Context(), guard.Spec{Name: "w", Command: "cat /proc/self/cgroup >" + out}))
		testkit.Eventually(t, "a word of it", func() bool {
			return strings.Contains(log.String(), "msg=guard kills-by="+way+" starts_at_once=3 ")
		})
		b, err := os.ReadFile(out)
		must(t, err)
		if own := bytes.Contains(b, []byte("/coordd-guard.")); own != (way == "cgroup") {
			t.Errorf("%s: the command is in %s", way, b)
		}
		_, dir, _ := strings.Cut(log.String(), "path=")
		dir, _, _ = strings.Cut(dir, "\n")
		must(t, f.stop())
		if _, err := os.Lstat(dir); way == "cgroup" && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the directory %q is left: %v", dir, err)
		}
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

// In a /proc of another process namespace no child is to be found.
func TestNothingIsGuardedByTheProcOfAnotherNamespace(t *testing.T) {
	for name, flags := range map[string]uintptr{"its own": 0, "another": syscall.CLONE_NEWPID} {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), modeEnv+"=check")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
		if flags != 0 && os.Geteuid() != 0 {
			cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		}
		out, err := cmd.CombinedOutput()
		if err != nil || strings.HasPrefix(string(out), "<nil>") != (flags == 0) ||
			flags != 0 && !strings.Contains(string(out), "mount") {
			t.Errorf("%s: %s (%v)", name, out, err)
		}
	}
}
