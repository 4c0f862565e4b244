package testkit

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// Environ is the test's own environment without the variables that begin with one of the prefixes.
func Environ(without ...string) []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return slices.ContainsFunc(without, func(prefix string) bool {
			return strings.HasPrefix(kv, prefix)
		})
	})
}

// Build builds the coordd binary into the file path. It takes the product's go.mod, for the tests of
// another module too. The flags are those of go build.
func Build(path string, flags ...string) error {
	const module = "github.com/coordd/coordd"
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return fmt.Errorf("where coordd is: %w", err)
	}
	args := append([]string{"build", "-o", path}, flags...)
	cmd := exec.Command("go", append(args, module+"/cmd/coordd")...)
	cmd.Dir = strings.TrimSpace(string(root))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building coordd: %w\n%s", err, out)
	}
	return nil
}

// Marked lists the processes that have each of the variables, name=value, in their environment:
// what a program was started with, and what it starts, has it. A zombie has none.
func Marked(variables ...string) ([]int, error) {
	dir, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range dir {
		if pid, err := strconv.Atoi(e.Name()); err == nil && HasVariables(pid, variables...) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// HasVariables tells whether a process has each of the variables in its environment. One without a
// value, name=, may have any.
func HasVariables(pid int, variables ...string) bool {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil || len(env) == 0 { // gone, or a zombie
		return false
	}
	entries := strings.Split(string(bytes.TrimRight(env, "\x00")), "\x00")
	return !slices.ContainsFunc(variables, func(kv string) bool {
		return !slices.ContainsFunc(entries, func(entry string) bool {
			return entry == kv || strings.HasSuffix(kv, "=") && strings.HasPrefix(entry, kv)
		})
	})
}

// Tail is the last n lines of the text, or all of it.
func Tail(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) > n {
		lines = append([]string{"..."}, lines[len(lines)-n:]...)
	}
	return strings.Join(lines, "\n")
}
