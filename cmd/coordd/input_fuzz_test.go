package main

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
)

// FuzzCommandLine: a command line that asks Consul for something, in a process that is
// told to stop: it ends with 0, 1 or 2, and what it has to say against it takes one line.
func FuzzCommandLine(f *testing.F) {
	for _, s := range []string{
		"status", "status\n--json", "work\nadd\na\nb\n--weight\n0", "work\nadd\na/b",
		"work\nadd\n--payload\nx\n--weight\n-1\na", "work\nrm\n\x00", "items\n--json=maybe",
		"drain\na", "pin\na\nb\nc", "override\n--consul\nhttp://[::1",
		"items\n--consul\n:", "status\n--service\na/b", "status\n--service\n", "work",
		"work\nadd\n--\n-a", "status\n--consul\nunix://",
		"work\nadd\na\n--weight\n99999999999999999999", "version", "help\nwork\nadd",
		"status\n--no-such\n\nx", "drain\na\n--wait\n--timeout\n1s", "drain\na\n--deadline\n-1s",
		"plan\n--drain\na,b\n--add\n1", "items\n--pinned", "restart\na\n--member\nb",
		"pin\na\nb\n--now", "freeze",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\n")
		if !slices.Contains([]string{"status", "work", "items", "version", "help",
			"drain", "undrain", "pin", "unpin", "freeze", "thaw", "override", "plan", "restart"}, args[0]) {
			return // the others start something, or read files
		}
		for _, a := range args {
			if strings.HasPrefix(a, "--payload-f") || slices.Contains([]string{"import", "sync",
				"export"}, a) {
				return // reads a file
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var out, err bytes.Buffer
		code := run(ctx, surroundings{args: args, env: func(string) (string, bool) {
			return "", false
		}, in: strings.NewReader(""), out: &out, err: &err})
		if code < 0 || code > 2 {
			t.Errorf("exit code %d", code)
		}
		text := strings.TrimSuffix(err.String(), "\n")
		if code != 0 && (text == "" || strings.ContainsAny(text, "\n\r")) {
			t.Errorf("exit code %d, and on standard error %q: want one line", code, text)
		}
	})
}
