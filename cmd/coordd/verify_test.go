package main

import (
	"bytes"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/printable"
)

// verified judges histories, each given as its text.
func verified(t *testing.T, histories ...string) (code int, text string) {
	t.Helper()
	args := []string{"verify"}
	for _, h := range histories {
		name := filepath.Join(t.TempDir(), "history")
		must(t, os.WriteFile(name, []byte(h), 0o600))
		args = append(args, name)
	}
	var out bytes.Buffer
	none := func(string) (string, bool) { return "", false }
	code = run(t.Context(), surroundings{args: args, env: none, in: strings.NewReader(""),
		out: &out, err: &out})
	return code, out.String()
}

// Ids of items are others' texts, and a history may come from anywhere.
func TestVerifyShowsNothingThatATerminalObeys(t *testing.T) {
	for _, x := range hostile {
		if len(x) > 1000 {
			continue
		}
		id := url.QueryEscape(x)
		code, text := verified(t, "2000-01-01T00:00:00Z boot "+id+"%231\n"+
			"2000-01-01T00:00:01Z start "+id+"%231 "+id+" 5\n"+
			"2000-01-01T00:00:02Z start "+id+"%231 "+id+" 4\n"+
			"2000-01-01T00:00:04Z end "+id+"%231\n")
		if code != exitFailed {
			t.Errorf("%q: exit code %d: %s", x, code, text)
		}
		if i := strings.IndexFunc(text, func(r rune) bool {
			return printable.Hidden(r) && r != '\n'
		}); i >= 0 || strings.Contains(text, "\nn9") {
			t.Errorf("%q is shown in %.300q", x, text)
		}
	}
}
