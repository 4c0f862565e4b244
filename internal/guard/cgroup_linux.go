package guard

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// cgroupPrefix begins the name of the directory that holds one cgroup for each command.
const cgroupPrefix = "coordd-guard."

// cgroups is the directory of one guard process, in cgroup v2, with a cgroup below it for each
// command. A process stays in the cgroup that it was started in, whatever it does to its
// environment, session and parents: only who may write to the files of another cgroup gets out.
// Empty: there are none, and nothing is done.
type cgroups string

// newCgroups makes the directory. The error says why there is none.
func newCgroups() (cgroups, error) {
	base, err := cgroupBase()
	if err != nil {
		return "", err
	}
	c := cgroups(filepath.Join(base, cgroupPrefix+rand.Text()))
	if err := os.Mkdir(string(c), 0o755); err != nil {
		return "", err
	}
	// Kernels before 5.14 have no such file, and no processes begin in a threaded cgroup.
	_, err = os.Stat(filepath.Join(string(c), "cgroup.kill"))
	if err == nil {
		err = unix.Access(filepath.Join(base, "cgroup.procs"), unix.W_OK)
	}
	kind, _ := os.ReadFile(filepath.Join(string(c), "cgroup.type"))
	if err == nil && string(kind) != "domain\n" {
		err = fmt.Errorf("its type is %q", kind)
	}
	if err != nil {
		c.close()
		return "", err
	}
	return c, nil
}

// make makes the cgroup of a command.
func (c cgroups) make(id uint64) (*os.File, error) {
	dir := c.of(id)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	return os.Open(dir)
}

func (c cgroups) of(id uint64) string {
	return filepath.Join(string(c), strconv.FormatUint(id, 10))
}

// kill kills all that is in a command's cgroup.
func (c cgroups) kill(id uint64) {
	if c != "" {
		killCgroup(c.of(id))
	}
}

// members lists the processes in a command's cgroup.
func (c cgroups) members(id uint64) (pids []int) {
	if c == "" {
		return nil
	}
	b, _ := os.ReadFile(filepath.Join(c.of(id), "cgroup.procs"))
	for f := range strings.FieldsSeq(string(b)) {
		if pid, err := strconv.Atoi(f); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// populated tells whether a process lives in a command's cgroup.
func (c cgroups) populated(id uint64) bool { return c != "" && populated(c.of(id)) }

// remove removes the cgroup of a command, which must be empty.
func (c cgroups) remove(id uint64) {
	if c != "" {
		removeCgroup(c.of(id))
	}
}

// close removes them all.
func (c cgroups) close() {
	if c != "" {
		removeCgroup(string(c))
	}
}

// killCgroup kills what is in dir and below it, at once: none escapes by forking.
func killCgroup(dir string) {
	_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
}

// populated tells whether a process lives in dir or below it. What cannot be found out counts as
// yes.
func populated(dir string) bool {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.events"))
	return !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENODEV) &&
		!strings.Contains(string(b), "populated 0")
}

// removeCgroup removes dir and what is below it, as far as no process is in there.
func removeCgroup(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() {
			removeCgroup(filepath.Join(dir, e.Name()))
		}
	}
	_ = syscall.Rmdir(dir)
}

// cgroupBase is the directory of this process's own cgroup, if others may be made in it.
func cgroupBase() (string, error) {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	path, found := "", false
	for line := range strings.Lines(string(b)) {
		if path, found = strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); found {
			break
		}
	}
	if !found {
		return "", errors.New("there is no cgroup v2 here")
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	dir, top, err := cgroupDir(string(mounts), path)
	if err != nil {
		return "", err
	}
	if !top && !delegated(dir) && !delegated(filepath.Dir(dir)) {
		return "", fmt.Errorf("the cgroup %s is not this process's to divide: see Delegate= in "+
			"systemd.resource-control(5)", path)
	}
	return dir, nil
}

// cgroupDir finds the directory of the cgroup with that path. Top says that it is the highest that
// can be seen, as in a container.
func cgroupDir(mountinfo, path string) (dir string, top bool, err error) {
	if strings.HasPrefix(path, "/..") {
		return "", false, fmt.Errorf("the cgroup %s is outside of what can be seen here", path)
	}
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		f, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 5 || len(kind) < 1 || kind[0] != "cgroup2" {
			continue
		}
		root, point := strings.TrimSuffix(unescape.Replace(f[3]), "/"), unescape.Replace(f[4])
		rest, ok := strings.CutPrefix(strings.TrimSuffix(path, "/"), root)
		if ok && (rest == "" || rest[0] == '/') {
			return filepath.Join(point, rest), rest == "", nil
		}
	}
	return "", false, fmt.Errorf("no cgroup v2 is mounted that has %s", path)
}

// delegated tells whether systemd has given dir away to what runs in it.
func delegated(dir string) bool {
	value := make([]byte, 8)
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		if n, err := unix.Getxattr(dir, name, value); err == nil && string(value[:n]) == "1" {
			return true
		}
	}
	return false
}
