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

// TestTranscripts plays every script and compares each answer with the recording. With -update it
// writes the recording from the real server's answers instead.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	all := scripts(t, "*.txt")
	// One after another: the real server is shared, and the scripts use the same names.
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		tg := realTarget(t)
		for _, s := range all {
			t.Run(scriptName(s), func(t *testing.T) {
				tg.wipe(t)
				answers := play(t, tg, s)
				if !*update {
					compare(t, s, answers, differencesOf(scriptName(s), tg.name))
				} else if err := os.WriteFile(s.name, []byte(s.text(answers)), 0o644); err != nil {
					t.Fatal(err)
				}
			})
		}
	})
	if *update {
		return
	}
	for name, start := range map[string]func(*testing.T) target{
		"port": embeddedOnPort, "in-process": embeddedInProcess} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, s := range all {
				t.Run(scriptName(s), func(t *testing.T) {
					t.Parallel()
					tg := start(t)
					compare(t, s, play(t, tg, s), differencesOf(scriptName(s), tg.name))
				})
			}
		})
	}
}

func scriptName(s script) string { return strings.TrimSuffix(filepath.Base(s.name), ".txt") }

// compare fails the test for every answer that is neither the recorded one nor what the differences
// make of it, and for every difference that is none any more.
func compare(t *testing.T, s script, answers []string, different []difference) {
	t.Helper()
	used := make([]bool, len(different))
	for i, st := range s.steps {
		want := st.recorded
		for k, d := range different {
			if d.matches(st) && strings.Contains(want, d.recorded) {
				want, used[k] = strings.ReplaceAll(want, d.recorded, d.answered), true
			}
		}
		if answers[i] != want {
			t.Errorf("%s: step %d\n  %s\n  %s\nwant:\n%s\nanswered:\n%s", s.name, i+1, st.command,
				clip(st.body), indent(want), indent(answers[i]))
		}
	}
	for k, d := range different {
		if !used[k] {
			t.Errorf("%s: no recorded answer has what differs: %+v", s.name, d)
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
