package guard

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// cgroupPrefix and a guard's token are the name of the cgroup that holds one cgroup for each
// command.
const cgroupPrefix = "coordd-guard."

// cgroups are those of one guard process, in cgroup v2. A process stays in the cgroup that it was
// started in, whatever it does to its environment, session and parents: only who may write to the
// files of another cgroup gets out.
type cgroups struct {
	dir  string // of this guard process
	path string // the same as /proc/PID/cgroup has it
}

// newCgroups makes the cgroup of the guard with token, and tries it. The error says why there is
// none.
func newCgroups(token string) (*cgroups, error) {
	base, path, err := cgroupBase()
	if err != nil {
		return nil, err
	}
	c := &cgroups{filepath.Join(base, cgroupPrefix+token), strings.TrimSuffix(path, "/") + "/" +
		cgroupPrefix + token}
	if err := os.Mkdir(c.dir, 0o755); err != nil {
		return nil, err
	}
	if err := c.probe(); err != nil {
		removeCgroup(c.dir)
		return nil, err
	}
	return c, nil
}

// probe starts a process in a cgroup: kernels before 5.14, sandboxes and threaded cgroups refuse.
func (c *cgroups) probe() error {
	dir, err := c.make(0)
	if err != nil {
		return err
	}
	defer dir.Close()
	if _, err := os.Stat(filepath.Join(dir.Name(), "cgroup.kill")); err != nil {
		return err
	}
	pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", ":"},
		&syscall.ProcAttr{Sys: childAttr(dir)})
	if err != nil {
		return fmt.Errorf("start a process in it: %w", err)
	}
	for {
		if _, err := syscall.Wait4(pid, nil, 0, nil); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	removeCgroup(dir.Name())
	return nil
}

// make makes the cgroup of a command.
func (c *cgroups) make(id uint64) (*os.File, error) {
	dir := c.of(id)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	return f, nil
}

func (c *cgroups) of(id uint64) string { return filepath.Join(c.dir, strconv.FormatUint(id, 10)) }

// command is whose cgroup a process is in.
func (c *cgroups) command(pid int) (id uint64, ok bool) {
	if c == nil {
		return 0, false
	}
	path, err := cgroupOf(strconv.Itoa(pid))
	if err != nil {
		return 0, false
	}
	rest, ok := strings.CutPrefix(path, c.path+"/")
	if !ok {
		return 0, false
	}
	name, _, _ := strings.Cut(rest, "/")
	id, err = strconv.ParseUint(name, 10, 64)
	return id, err == nil
}

// kill kills all that is in a command's cgroup.
func (c *cgroups) kill(id uint64) { killCgroup(c.of(id)) }

// members lists the processes in a command's cgroup, and tells whether any lives there: that is the
// surer word.
func (c *cgroups) members(id uint64) (pids []int, any bool) { return cgroupMembers(c.of(id)) }

// remove removes the cgroup of a command, which must be empty.
func (c *cgroups) remove(id uint64) { removeCgroup(c.of(id)) }

// close removes them all.
func (c *cgroups) close() {
	if c != nil {
		removeCgroup(c.dir)
	}
}

// killCgroup kills what is in dir and below it, at once: none escapes by forking.
func killCgroup(dir string) {
	_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
}

// cgroupMembers lists the processes in dir and below it, and tells whether any lives there.
func cgroupMembers(dir string) (pids []int, any bool) {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.events"))
	if errors.Is(err, os.ErrNotExist) || strings.Contains(string(b), "populated 0") {
		return nil, false
	}
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // gone meanwhile
		}
		b, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		for f := range strings.FieldsSeq(string(b)) {
			if pid, err := strconv.Atoi(f); err == nil {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	return pids, true
}

// killCgroups kills what is in the cgroup of a dead guard, and adds what lives there to left: the
// commands by the names of their cgroups. The error is one of which cannotLook is true.
func killCgroups(dir string, left remains) error {
	if _, err := os.ReadFile(filepath.Join(dir, "cgroup.events")); cannotLook(err) {
		return err
	}
	pids, any := cgroupMembers(dir)
	if !any {
		removeCgroup(dir)
		return nil
	}
	killCgroup(dir)
	known := false
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		id, err := strconv.ParseUint(e.Name(), 10, 64)
		pids, any := cgroupMembers(filepath.Join(dir, e.Name()))
		if err != nil || !e.IsDir() || !any {
			continue
		}
		known = true
		left.add(-int(id), id) // also where none of them is to be seen
		for _, pid := range pids {
			left.add(pid, id)
		}
	}
	for _, pid := range pids {
		left.add(pid, 0)
	}
	if !known {
		left.add(0, 0)
	}
	return nil
}

// removeCgroup removes dir and what is below it, as far as no process is in there.
func removeCgroup(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			removeCgroup(filepath.Join(dir, e.Name()))
		}
	}
	_ = syscall.Rmdir(dir)
}

// cgroupsOf lists the cgroups of guards beside which this one has its own, by their tokens. There
// is an error when cannotLook is true of it.
func cgroupsOf() (map[string]string, error) {
	base, _, err := cgroupBase()
	if cannotLook(err) {
		return nil, err
	}
	if err != nil {
		return nil, nil
	}
	entries, err := os.ReadDir(base)
	if cannotLook(err) {
		return nil, err
	}
	found := map[string]string{}
	for _, e := range entries {
		if token, ok := strings.CutPrefix(e.Name(), cgroupPrefix); ok {
			found[token] = filepath.Join(base, e.Name())
		}
	}
	return found, nil
}

// cgroupOf is the path of a process's cgroup v2.
func cgroupOf(pid string) (string, error) {
	b, err := os.ReadFile("/proc/" + pid + "/cgroup")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			return path, nil
		}
	}
	return "", errors.New("there is no cgroup v2 here")
}

// cgroupBase is the directory and the path of this process's own cgroup, if others may be made in
// it.
func cgroupBase() (dir, path string, err error) {
	if path, err = cgroupOf("self"); err != nil {
		return "", "", err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", "", err
	}
	dir, top, err := cgroupDir(string(mounts), path)
	if err != nil {
		return "", "", err
	}
	if !top && !delegated(dir) && !delegated(filepath.Dir(dir)) {
		return "", "",
			fmt.Errorf("the cgroup %s is not this process's to divide: see Delegate= in "+
				"systemd.resource-control(5)",
				path)
	}
	return dir, path, nil
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
