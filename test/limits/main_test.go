package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWhatIsAboveALimitIsFoundAndTablesAreNot(t *testing.T) {
	many := func(line string, n int) string { return strings.Repeat(line+"\n", n) }
	for name, c := range map[string]struct{ src, finds string }{
		"80 lines":    {"func (x *T[K]) F() {\n" + many("x++", 78) + "}", ""},
		"81 lines":    {"func (x *T[K]) F() {\n" + many("x++", 79) + "}", "a/p.T.F"},
		"25 branches": {"func F() {\n" + many("if x {}", 25) + "}", ""},
		"26 branches": {"func F() {\n" + many("f(func() { _ = a && b })", 26) + "}", "a/p.F"},
		"a literal":   {"func F() any {\nreturn []int{\n" + many("1,", 99) + "}\n}", ""},
		"a flat switch": {"func F() {\nswitch x {\n" + many("case 1:\ny = 1", 50) +
			"}\n}", ""},
		"a deep switch": {"func F() {\nswitch x {\n" + many("case 1:\nif x {}", 50) +
			"}\n}", "a/p.F"},
		"functions in a literal": {"func F() any {\nreturn []func(){\n" +
			many("func() {\nif x {\ny++\n}\n},", 30) + "}\n}", "a/p.F"},
		"26 fields": {"type T struct {\n" + many("a, b int", 13) + "}", "a/p.T"},
		"25 fields": {"type T struct {\nsync.Mutex\n" + many("a, b int", 12) + "}", ""},
	} {
		found, err := inFile("a/p/f.go", []byte("package p\n"+c.src))
		if err != nil {
			t.Fatal(name, err)
		}
		if c.finds == "" && len(found) != 0 ||
			c.finds != "" && (len(found) != 1 || found[0].name != c.finds) {
			t.Errorf("%s: found %v, want %q", name, found, c.finds)
		}
	}
}

func TestTheFileNamesExactlyWhatIsAbove(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.txt")
	if err := os.WriteFile(path, []byte("# above today\np.Old\np.Long\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := compare([]finding{{"p.Long", "90 lines"}, {"p.New", "99 lines"}}, path)
	if err == nil || !strings.Contains(err.Error(), "p.New: 99 lines") ||
		!strings.Contains(err.Error(), "p.Old: no longer") ||
		strings.Contains(err.Error(), "p.Long") {
		t.Error(err)
	}
}
