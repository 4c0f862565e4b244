package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layers says which packages of this module a package may not import. All three are patterns of
// paths from the top of the module. An empty but means no exception. Tests may import anything.
var layers = []struct{ who, never, but string }{
	{who: `messages`, never: `.`},
	{who: `supervisor(/.*)?`, never: `.`, but: `supervisor|internal/(asynclog|labels)`},
	{who: `actors/placement`, never: `.`},
	{who: `internal/(asynclog|labels|words|place|printable|proc|reread|httpserver|sdnotify)`,
		never: `.`},
	{who: `internal/wal`, never: `.`, but: `internal/place`},
	{who: `internal/facts`, never: `.`, but: `messages`},
	{who: `internal/store`, never: `.`, but: `messages|internal/(facts|reread|words)`},
	{who: `internal/protocol`, never: `.`, but: `internal/(store|proc)`},
	{who: `internal/.*`, never: `^(actors|cmd|supervisor)`},
	{who: `actors(/.*)?`, never: `^cmd`},
	{who: `actors/.*`, never: `^actors/metrics$`},
	{who: `actors/(routing|dispatch|configstore|election|operator)(/.*)?`, never: `^actors$`},
	{who: `actors/internal/actor`, never: `^actors`},
	{who: `actors/internal/member`, never: `^actors`, but: `actors/internal/actor`},
	{who: `actors/internal/leader`, never: `^actors`, but: `actors/(internal/actor|placement)`},
	{who: `cmd/.*`, never: `^internal/(store|protocol)$`},
	{who: `.*`, never: `^internal/aimed`},
	{who: `actors|actors/.*[^t]|cmd/.*`, never: `^internal/testkit`}, // actorstest may
}

// forTests are the modules that go.mod requires for tests alone. Who imports the library gets them,
// so they are few and small. Others belong into a module below test/, such as that of test/e2e.
var forTests = []string{"github.com/prometheus/client_model", "github.com/rogpeppe/go-internal",
	"go.uber.org/goleak"}

func TestPackagesImportOneWay(t *testing.T) {
	const module = "github.com/coordd/coordd/"
	seen, foreign := 0, ""
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "bin" || d.Name() == "test"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		from, err := filepath.Rel("../..", filepath.Dir(path))
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			whole, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			to, ours := strings.CutPrefix(whole, module)
			if strings.HasPrefix(whole, "github.com/prometheus/") && from != "actors/metrics" {
				t.Errorf("%s imports %s: only actors/metrics may, so that a host without it links "+
					"nothing of Prometheus", from, whole)
			}
			if !ours {
				if !strings.HasSuffix(from, "test") {
					foreign += " " + whole + "/"
				}
				continue
			}
			seen++
			for _, l := range layers {
				if regexp.MustCompile(`^(`+l.who+`)$`).MatchString(from) &&
					regexp.MustCompile(l.never).MatchString(to) &&
					(l.but == "" || !regexp.MustCompile(`^(`+l.but+`)$`).MatchString(to)) {
					t.Errorf("%s imports %s: %s may not", path, to, from)
				}
			}
		}
		return nil
	})
	if err != nil || seen < 100 {
		t.Errorf("%d imports were looked at (%v)", seen, err)
	}
	text, err := os.ReadFile("../../go.mod")
	must(t, err)
	required := regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(string(text), -1)
	for _, r := range required {
		if !strings.Contains(foreign, " "+r[1]+"/") && !slices.Contains(forTests, r[1]) {
			t.Errorf("go.mod requires %s, which no package of the product imports", r[1])
		}
	}
	if len(required) < 10 {
		t.Errorf("go.mod requires %q", required)
	}
}
