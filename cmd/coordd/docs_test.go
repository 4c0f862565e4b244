package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// What the documents name has to be there: a promise whose test has been renamed is held by nobody,
// and a flag that is gone costs its reader the day.

// documents are the texts that are held to this, by their path from the module's root.
func documents(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(names) == 0 {
		t.Fatalf("no documents below docs/ (%v)", err)
	}
	texts := map[string]string{}
	outside, err := filepath.Glob("../../*.md")
	if err != nil || len(outside) < 4 {
		t.Fatalf("the top has %q for documents (%v)", outside, err)
	}
	for _, name := range append(names, outside...) {
		b, err := os.ReadFile(name)
		must(t, err)
		rel, _ := filepath.Rel("../..", name)
		texts[filepath.ToSlash(rel)] = string(b)
	}
	return texts
}

// sources is all that Go and make are given, but for this file, which names what is not.
func sources(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "bin") {
			return filepath.SkipDir
		}
		if name := d.Name(); !d.IsDir() && name != "docs_test.go" && (filepath.Ext(name) == ".go" ||
			name == "Makefile") {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			b.Write(text)
		}
		return nil
	})
	must(t, err)
	return b.String()
}

var (
	fenced  = regexp.MustCompile("(?ms)^```.*?^```")
	quoted  = regexp.MustCompile("`[^`\n]+`")
	aTest   = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w+`)
	aFlag   = regexp.MustCompile(`(?:^|[^\w-])(--[a-z][a-z-]*)`)
	aMake   = regexp.MustCompile(`^make ((?:[A-Z]+=\S+ )*)([a-z]+)((?: [A-Z]+=\S+)*)`)
	aSwitch = regexp.MustCompile(`([A-Z]+)=`)
	aPath   = regexp.MustCompile(`(?:^|[\s(=])(?:\./)?([a-z]+/[\w./-]*)`)
	aName   = regexp.MustCompile(`\bCOORDD_[A-Z_]+[A-Z]\b`)
)

// code is what a document shows as code: the lines of its blocks, and what stands in backquotes.
func code(text string) []string {
	var lines []string
	for _, block := range fenced.FindAllString(text, -1) {
		for line := range strings.Lines(block) {
			lines = append(lines, strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line),
				"$ ")))
		}
	}
	for _, span := range quoted.FindAllString(fenced.ReplaceAllString(text, ""), -1) {
		lines = append(lines, strings.Trim(span, "`"))
	}
	return lines
}

func TestEveryTestThatTheDocumentsNameExists(t *testing.T) {
	src := sources(t)
	n := 0
	for doc, text := range documents(t) {
		for _, name := range aTest.FindAllString(text, -1) {
			n++
			if !strings.Contains(src, "\nfunc "+name+"(") {
				t.Errorf("%s names %s, and there is no such function", doc, name)
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d names of tests were found: does this test still read the documents?", n)
	}
}

func TestEveryFlagThatTheDocumentsNameExists(t *testing.T) {
	a := &app{}
	root := a.root()
	known := map[string]bool{"--help": true}
	var all func(c *cobra.Command)
	all = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) { known["--"+f.Name] = true })
		c.PersistentFlags().VisitAll(func(f *pflag.Flag) { known["--"+f.Name] = true })
		for _, sub := range c.Commands() {
			all(sub)
		}
	}
	all(root)
	n := 0
	for doc, text := range documents(t) {
		for _, line := range code(text) {
			line, _, _ = strings.Cut(line, " -- ") // from there on it is another program's
			line, _, _ = strings.Cut(line, " # ")
			line, _, _ = strings.Cut(line, "`") // the words behind a command
			_, args, ours := strings.Cut(line, "coordd ")
			if !ours && !strings.HasPrefix(line, "--") {
				continue
			}
			var cmd *cobra.Command
			if words := strings.Fields(args); ours && len(words) > 0 {
				found, _, err := root.Find(words)
				if err == nil && found != root {
					cmd = found
				}
			}
			for _, m := range aFlag.FindAllStringSubmatch(line, -1) {
				n++
				switch flag := m[1]; {
				case cmd != nil && cmd.Flag(strings.TrimPrefix(flag, "--")) == nil &&
					flag != "--help":
					t.Errorf("%s: `%s`: %s takes no %s", doc, line, cmd.CommandPath(), flag)
				case !known[flag]:
					t.Errorf("%s: `%s`: no command takes %s", doc, line, flag)
				}
			}
		}
	}
	if n < 50 {
		t.Errorf("only %d flags were found: does this test still read the documents?", n)
	}
}

func TestEveryVariableThatTheDocumentsNameIsRead(t *testing.T) {
	a := &app{}
	known := sources(t)
	var all func(c *cobra.Command)
	all = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) { known += "\n" + envName(f.Name) })
		c.PersistentFlags().VisitAll(func(f *pflag.Flag) { known += "\n" + envName(f.Name) })
		for _, sub := range c.Commands() {
			all(sub)
		}
	}
	all(a.root())
	for doc, text := range documents(t) {
		for _, name := range aName.FindAllString(text, -1) {
			if !strings.Contains(known, name) {
				t.Errorf("%s names the variable %s, and nothing reads it", doc, name)
			}
		}
	}
}

func TestEveryMakeTargetThatTheDocumentsNameExists(t *testing.T) {
	b, err := os.ReadFile("../../Makefile")
	must(t, err)
	makefile := string(b)
	n := 0
	for doc, text := range documents(t) {
		for _, line := range code(text) {
			m := aMake.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			n++
			if !strings.Contains(makefile, "\n"+m[2]+":") {
				t.Errorf("%s: `%s`: there is no target %s", doc, line, m[2])
			}
			for _, s := range aSwitch.FindAllStringSubmatch(m[1]+m[3], -1) {
				if !strings.Contains(makefile, "\n"+s[1]+" ?=") &&
					!strings.Contains(makefile, "${"+s[1]+":") {
					t.Errorf("%s: `%s`: nothing is switched by %s", doc, line, s[1])
				}
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d targets were found: does this test still read the documents?", n)
	}
}

func TestEveryPathThatTheDocumentsNameExists(t *testing.T) {
	entries, err := os.ReadDir("../..")
	must(t, err)
	// what else begins with a name and a slash is a key, a package of others, an address
	var top []string
	for _, e := range entries {
		if e.IsDir() && e.Name() != "bin" {
			top = append(top, e.Name())
		}
	}
	n := 0
	for doc, text := range documents(t) {
		for _, line := range code(text) {
			for _, m := range aPath.FindAllStringSubmatch(line, -1) {
				path := strings.TrimRight(m[1], "./")
				first, _, _ := strings.Cut(path, "/")
				if !slices.Contains(top, first) {
					continue
				}
				n++
				if _, err := os.Stat(filepath.Join("../..", path)); err != nil {
					t.Errorf("%s: `%s`: there is no %s", doc, line, path)
				}
			}
		}
	}
	if n < 30 {
		t.Errorf("only %d paths were found: does this test still read the documents?", n)
	}
}

// Guarantee 6 says that goleak looks at every package.
func TestEveryPackageWithTestsLooksForLeaks(t *testing.T) {
	looks := map[string]bool{} // directories with tests
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, other := os.Stat(filepath.Join(path, "go.mod"))
			if d.Name() == ".git" || d.Name() == "testdata" || other == nil && path != "../.." {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		dir := filepath.Dir(path)
		for _, call := range []string{"VerifyTestMain(", "Find("} {
			looks[dir] = looks[dir] || strings.Contains(string(text), "goleak."+call)
		}
		return err
	})
	must(t, err)
	if len(looks) < 20 {
		t.Fatalf("only %d packages with tests were found", len(looks))
	}
	for dir, does := range looks {
		if !does {
			t.Errorf("%s has no TestMain with goleak", strings.TrimPrefix(dir, "../../"))
		}
	}
}
