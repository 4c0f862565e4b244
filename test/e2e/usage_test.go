//go:build linux

package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coordd/coordd/test/realconsul"
)

func TestBadUsageIsOneClearLineAndExitCode2AndReachesNobody(t *testing.T) {
	t.Parallel()
	p := newProxy(t, realconsul.Shared(t).Addr())
	file := func(name, text string) string {
		name = filepath.Join(t.TempDir(), name)
		must(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	twice, slash := file("twice.txt", "a\nb\n\n# c\na\n"),
		file("slash.txt", "fine\nnot/fine\tpayload\n")
	for _, c := range []struct {
		args string
		says []string // each of these, in its one line
	}{
		{"run --id n1 --no-such-flag", []string{"--no-such-flag"}},
		{"run --id n1 --ttl soon", []string{"soon", "--ttl"}},
		{"run", []string{"--id is required"}},
		{"run --id n1 extra", []string{"extra"}},
		{"run --id a/b", []string{`"a/b"`, "slash"}},
		{"run --id n1 --service x/", []string{`"x/"`, "slash"}},
		{"run --id n1 --ttl 1s", []string{"ttl 1s", "2s", "24h"}},
		{"run --id n1 --ttl 48h", []string{"ttl 48h", "2s", "24h"}},
		{"run --id n1 --lock-delay 2m", []string{"lock-delay 2m", "0s", "1m"}},
		{"run --id n1 --grace 1s", []string{"grace 1s", "10s"}},
		{"run --id n1 --lease 1s", []string{"lease 1s", "2s", "10s"}},
		{"run --id n1 --lease 11s", []string{"lease 11s", "2s", "10s"}},
		{"run --id n1 --lease 3s --renew 2s", []string{"renew 2s", "1.5s"}},
		{"run --id n1 --renew 9s", []string{"renew 9s", "5s"}},
		{"run --id n1 --exec true --hold-items", []string{"hold-items", "exec"}},
		{"run --id n1 --http 7070", []string{"--http", "7070", "host:port"}},
		{"run --id n1 --log-level loud", []string{"--log-level", "loud", "debug"}},
		{"status --jsn", []string{"--jsn"}},
		{"work add", []string{"id of each item"}},
		{"work add fine a/b", []string{`"a/b"`, "slash"}},
		{"work rm a/b", []string{`"a/b"`, "slash"}},
		{"work import", []string{"one file"}},
		{"work import no-such-file.txt", []string{"no-such-file.txt", "no such file"}},
		{"work import " + filepath.Dir(twice), []string{filepath.Dir(twice), "directory"}},
		{"work import " + twice, []string{twice + ":5:", `"a"`, "line 1"}},
		{"work import " + slash, []string{slash + ":2:", `"not/fine"`, "slash"}},
		{"drain a/b", []string{`"a/b"`, "slash"}},
		{"dev --members 0", []string{"--members 0", "1 to"}},
		{"no-such-command", []string{"no-such-command"}},
	} {
		args := strings.Fields(c.args)
		if args[0] != "dev" && args[0] != "no-such-command" {
			args = append(args, "--consul", p.addr)
		}
		stdout, stderr, code := once(t, args...)
		if code != 2 {
			t.Errorf("coordd %s: exit code %d, not 2: %s", c.args, code, stderr)
		}
		if stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasSuffix(stderr, "\n") {
			t.Errorf("coordd %s: not one line on standard error: %q, %q", c.args, stderr, stdout)
		}
		for _, word := range c.says {
			if !strings.Contains(stderr, word) {
				t.Errorf("coordd %s: does not say %q: %s", c.args, word, stderr)
			}
		}
		if seen, _, _ := p.count(); len(seen) > 0 {
			t.Errorf("coordd %s: asked Consul: %s", c.args, seen)
		}
		p.forget()
	}
	// The same address is asked by a command that is right: the count is worth something.
	if _, stderr, code := once(t, "status", "--service", "nobody", "--consul", p.addr,
		"--json"); code != 1 || stderr != "" {
		t.Errorf("status of a service that nobody leads: exit code %d: %s", code, stderr)
	}
	if seen, _, _ := p.count(); len(seen) == 0 {
		t.Error("the proxy counts nothing")
	}
}
