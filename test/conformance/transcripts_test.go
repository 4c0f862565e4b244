package conformance_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func scripts(t *testing.T, pattern string) []script {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts %s: %v", pattern, err)
	}
	var all []script
	for _, path := range paths {
		s, err := readScript(path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

// TestTranscripts plays every script and compares each answer with the recording. With -update it writes the recording
// from the real server's answers instead.
func TestTranscripts(t *testing.T) {
	t.Run("real", func(t *testing.T) {
		tg := realTarget(t)
		for _, s := range scripts(t, "*.txt") {
			t.Run(scriptName(s), func(t *testing.T) {
				tg.wipe(t)
				answers := play(t, tg, s)
				if *update {
					if err := os.WriteFile(s.name, []byte(s.text(answers)), 0o644); err != nil {
						t.Fatal(err)
					}
					return
				}
				compare(t, s, answers)
			})
		}
	})
}

func scriptName(s script) string { return strings.TrimSuffix(filepath.Base(s.name), ".txt") }

func compare(t *testing.T, s script, answers []string) {
	t.Helper()
	for i, st := range s.steps {
		if answers[i] != st.recorded {
			t.Errorf("%s: step %d\n  %s\n  %s\nrecorded:\n%s\nanswered:\n%s", s.name, i+1, st.command, clip(st.body), indent(st.recorded), indent(answers[i]))
		}
	}
}

func clip(text string) string {
	if len(text) > 300 {
		return text[:300] + "..."
	}
	return text
}

func indent(text string) string { return "    " + strings.ReplaceAll(text, "\n", "\n    ") }
