package mutations_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/coordd/coordd/test/mutations"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Each patch applies to the product as it is, and a test plays each rule.
func TestEachPatchAppliesAndIsPlayed(t *testing.T) {
	if _, err := mutations.Overlay("../..", ".", filepath.Join(t.TempDir(), "out")); err != nil {
		t.Fatal(err)
	}
	var tables strings.Builder
	for _, pattern := range []string{"../simulation/*_test.go", "../../actors/election/on*/*_test.go"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatal(pattern, err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			tables.Write(text)
		}
	}
	played := map[string]bool{}
	for _, m := range regexp.MustCompile(`"([a-z+-]+)"`).FindAllStringSubmatch(tables.String(), -1) {
		for _, rule := range strings.Split(m[1], "+") {
			played[rule] = true
		}
	}
	patches, _ := filepath.Glob("*.patch")
	for _, name := range patches {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		rules := regexp.MustCompile(`mutations\.(?:Broken|Or)\(\s*\+?\s*"([^"]+)"`).FindAllStringSubmatch(
			string(text), -1)
		if len(rules) == 0 {
			t.Errorf("%s asks for no rule", name)
		}
		for _, m := range rules {
			if !played[m[1]] {
				t.Errorf("%s: no test breaks the rule %s", name, m[1])
			}
		}
	}
}

func TestAPatchThatDoesNotApplyIsAnError(t *testing.T) {
	const source = "// Package p is one.\npackage p\n\nfunc f(a, b bool) bool {\n\treturn a && b\n}\n"
	const hunk = "@@ p.go\n-return a && b\n+return mutations.Or(\"r\", a && b, a)\n"
	for name, c := range map[string]struct{ patches, want string }{
		"it applies":           {hunk, ""},
		"other lines":          {"@@ p.go\n-return a || b\n+return a\n", "0 times, not once"},
		"lines that are twice": {"@@ p.go\n-\n+x\n", "not once"},
		"the same line twice":  {hunk + hunk, "another patch changes"},
		"no such file":         {"@@ q.go\n-x\n+y\n", "q.go"},
		"no hunk":              {"-x\n+y\n", "begins with"},
		"no change":            {"@@ p.go\n return a && b\n", "changes nothing"},
	} {
		root, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
		for file, text := range map[string]string{"p.go": source, "m.patch": c.patches} {
			if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := mutations.Overlay(root, root, out)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		patched, readErr := os.ReadFile(filepath.Join(out, "p.go.txt"))
		if err != nil || readErr != nil {
			t.Fatal(err, readErr)
		}
		want := strings.Replace(strings.Replace(source, "\treturn a && b", "return mutations.Or(\"r\", "+
			"a && b, a)", 1), "package p\n",
			"package p; import \"github.com/coordd/coordd/test/mutations\"\n", 1)
		if string(patched) != want {
			t.Errorf("%s: %s", name, patched)
		}
	}
}

func TestARuleIsBrokenByItsNameAlone(t *testing.T) {
	if mutations.Broken("r") || mutations.Or("r", 1, 2) != 1 {
		t.Error("a rule is broken that nobody has switched off")
	}
	defer func() {
		if (recover() != nil) == mutations.Applied {
			t.Error("Break is refused where there are rules, or not where there are none")
		}
	}()
	mutations.Break("q+r")
	if !mutations.Broken("r") || mutations.Broken("s") || mutations.Or("q", 1, 2) != 2 {
		t.Error("other rules are broken than were named")
	}
}
