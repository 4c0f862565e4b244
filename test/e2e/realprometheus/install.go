//go:build unix

package realprometheus

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// find returns the path of prometheus or promtool: in $COORDD_TEST_PROMETHEUS, or else where
// test/tools.sh has put it, or else as the shell finds it.
func find(program string) (string, error) {
	if dir := os.Getenv("COORDD_TEST_PROMETHEUS"); dir != "" {
		return exec.LookPath(filepath.Join(dir, program))
	}
	if cache, err := os.UserCacheDir(); err == nil {
		path := filepath.Join(cache, "coordd", "prometheus", "usr", "bin", program)
		if path, err := exec.LookPath(path); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("realprometheus: no %s (%w): run test/tools.sh, or install it "+
			"(Debian, Ubuntu: apt-get install --no-install-recommends prometheus), or set "+
			"COORDD_TEST_PROMETHEUS to the directory that it is in", program, err)
	}
	return path, nil
}

// Promtool runs promtool in a directory and returns what it prints; the error is its exit code's.
func Promtool(t testing.TB, dir string, args ...string) (string, error) {
	t.Helper()
	path, err := find("promtool")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}
