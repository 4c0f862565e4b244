package main

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

// FuzzImport: a file is refused as a whole, naming a line, or gives items that can
// all be written, each id once.
func FuzzImport(f *testing.F) {
	for _, s := range []string{"", "a\n", "a\tpayload\nb\n", "\ufeffa\r\nb\r\n",
		"# comment\n\n  \n", "a\na\n", "a/b\n", "\t\n", " a\n", "a\t\x00\xff\n", "\xff\n", "..\n",
		"a\tb\tc", "%2e%2e\n", "#columns: id weight payload\na\t2\tx\n", "#columns: weight id\n",
		"#columns: id encoding payload\na\tbase64\t/w==\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		items, err := parseItems("file", bytes.NewReader(text))
		if err != nil {
			if !errors.Is(err, errUsage) || !strings.HasPrefix(err.Error(), "file:") ||
				items != nil {
				t.Errorf("%d items and %q: want bad usage that names the line", len(items), err)
			}
			return
		}
		seen := map[string]bool{}
		for _, w := range items {
			if err := w.Check(); err != nil || seen[w.ID] {
				t.Errorf("item %q: seen before %v, %v", w.ID, seen[w.ID], err)
			}
			seen[w.ID] = true
		}
	})
}

// FuzzCommandLine: a command line that asks Consul for something, in a process that is
// told to stop: it ends with 0, 1 or 2, and what it has to say against it takes one line.
func FuzzCommandLine(f *testing.F) {
	for _, s := range []string{
		"status", "status\n--json", "work\nadd\na\nb\n--weight\n0", "work\nadd\na/b",
		"work\nadd\n--payload\nx\n--weight\n-1\na", "work\nrm\n\x00", "work\nlist\n--json=maybe",
		"control\ndrain\na", "control\npin\na\nb\nc", "control\nobey\n--consul\nhttp://[::1",
		"work\nls\n--consul\n:", "status\n--service\na/b", "status\n--service\n", "work",
		"control\n--help",
		"work\nadd\n--\n-a", "status\n--consul\nunix://",
		"work\nadd\na\n--weight\n99999999999999999999", "version", "help\nwork\nadd",
		"status\n--no-such\n\nx", "drain\na\n--wait\n--timeout\n1s", "drain\na\n--deadline\n-1s",
		"plan\n--drain\na,b\n--add\n1", "pins\n--json", "restart\na\n--member\nb", "move\na\nb/c",
		"pin\na\nb", "freeze",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\n")
		if !slices.Contains([]string{"status", "work", "control", "version", "help",
			"drain", "undrain", "pin", "unpin", "pins", "freeze", "thaw", "override", "plan",
			"move", "restart"}, args[0]) {
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
