package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// costs are the worst cases that the command prints for these flags.
func costs(t *testing.T, flags ...string) map[string]time.Duration {
	t.Helper()
	var out, bad bytes.Buffer
	none := func(string) (string, bool) { return "", false }
	args := append([]string{"run", "--explain-timing", "--json"}, flags...)
	if code := run(t.Context(), surroundings{args: args, env: none, out: &out,
		err: &bad}); code != 0 {
		t.Fatalf("exit code %d: %s", code, bad.String())
	}
	var said struct{ Cases []worstCase }
	must(t, json.Unmarshal(out.Bytes(), &said))
	all := map[string]time.Duration{}
	for _, c := range said.Cases {
		all[c.Key] = time.Duration(c.Seconds * float64(time.Second)).Round(time.Millisecond)
	}
	return all
}

// What docs/takeover.md says of settings is what the binary says of them.
func TestTheSettingsThatTheDocumentsCompareCostWhatTheySay(t *testing.T) {
	text, err := os.ReadFile("../../docs/takeover.md")
	must(t, err)
	for _, flags := range []string{"", "--lease 6s", "--lease 3s", "--lease 3s --check-ttl 1s"} {
		c, name := costs(t, strings.Fields(flags)...), "`"+flags+"`"
		if flags == "" {
			name = "defaults"
		}
		row := fmt.Sprintf("| %s | at most %v s | at most %v s | %.1f s |", name,
			c["take_over"].Seconds(), c["take_over_of_lost_machine"].Seconds(),
			c["rides_through_silence_of"].Seconds())
		if !strings.Contains(string(text), row) {
			t.Errorf("docs/takeover.md does not say %q", row)
		}
	}
	// What it shows of the command, and what it says of a TTL below Consul's default floor.
	for _, says := range []string{fmt.Sprintf("%-8s a member hangs, or is killed and nobody speaks "+
		"for it\n         = ", costs(t, "--lease", "3s", "--check-ttl", "1s")["take_over"]),
		fmt.Sprintf("`--ttl 3s` takes %v s at most, and %v s also\nwithout a check",
			costs(t, "--ttl", "3s")["take_over_of_lost_machine"].Seconds(),
			costs(t, "--ttl", "3s", "--check-ttl", "none")["take_over"].Seconds())} {
		if !strings.Contains(string(text), says) {
			t.Errorf("docs/takeover.md does not say %q", says)
		}
	}
}
