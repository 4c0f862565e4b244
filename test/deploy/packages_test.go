//go:build linux && coordd_long

package deploy_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// packed builds the packages, once for a test: it is what `make packages` runs.
func packed(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("../pack/build.sh", dir)
	cmd.Env = append(os.Environ(), "VERSION=1.2.3")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("test/pack/build.sh: %v\n%s", err, out)
	}
	return dir
}

// only is the one file of a kind.
func only(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %q (%v)", pattern, found, err)
	}
	return found[0]
}

func TestThePackagesInstallAndGo(t *testing.T) {
	dir := packed(t)
	deb, rpm := only(t, filepath.Join(dir, "*.deb")), only(t, filepath.Join(dir, "*.rpm"))

	// As dpkg installs it, into a directory of its own.
	root := filepath.Join(t.TempDir(), "root")
	for _, sub := range []string{"admin/info", "admin/updates"} {
		must(t, os.MkdirAll(filepath.Join(root, sub), 0o700))
	}
	for _, file := range []string{"admin/status", "admin/available"} {
		must(t, os.WriteFile(filepath.Join(root, file), nil, 0o600))
	}
	dpkg := func(args ...string) {
		t.Helper()
		said(t, nil, "dpkg", append([]string{"--admindir", filepath.Join(root, "admin"),
			"--instdir", root, "--force-not-root,script-chrootless",
			"--log", filepath.Join(root, "log")}, args...)...)
	}
	dpkg("--install", deb)
	installed := filepath.Join(root, "usr/bin/coordd")
	if out := said(t, nil, installed, "version"); !strings.Contains(out, "coordd 1.2.3 ") {
		t.Errorf("the installed one says %q", out)
	}
	for name, want := range map[string]string{
		"usr/lib/systemd/system/coordd@.service":          "ExecStart=/usr/bin/coordd run",
		"usr/lib/sysusers.d/coordd.conf":                  "u coordd",
		"usr/share/bash-completion/completions/coordd":    "__start_coordd",
		"usr/share/zsh/vendor-completions/_coordd":        "#compdef coordd",
		"usr/share/fish/vendor_completions.d/coordd.fish": "complete -c coordd",
		"usr/share/doc/coordd/copyright":                  "MIT License",
		"usr/share/doc/coordd/examples/example.yaml":      "exec:",
	} {
		if b, err := os.ReadFile(filepath.Join(root, name)); err != nil ||
			!strings.Contains(string(b), want) {
			t.Errorf("%s does not hold %q (%v)", name, want, err)
		}
	}
	// The unit names the page.
	page := filepath.Join(root, "usr/share/man/man1/coordd-run.1.gz")
	if out := said(t, nil, "gzip", "-dc", page); !strings.Contains(out, "Run one member") {
		t.Errorf("the man page of coordd run has %d bytes", len(out))
	}
	dpkg("--remove", "coordd")
	if _, err := os.Stat(installed); !os.IsNotExist(err) {
		t.Errorf("after the removal: %v", err)
	}

	// What reads rpms is not everywhere: its lead says what it is, and of what.
	lead := make([]byte, 96)
	f, err := os.Open(rpm)
	must(t, err)
	defer f.Close()
	if _, err := f.Read(lead); err != nil || !bytes.HasPrefix(lead, []byte("\xed\xab\xee\xdb")) ||
		!bytes.Contains(lead, []byte("coordd-1.2.3")) {
		t.Errorf("%s begins with %q (%v)", rpm, lead, err)
	}
}
