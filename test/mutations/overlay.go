package mutations

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// hunk is one change of one file.
type hunk struct {
	patch    string // the file it is from
	path     string // the file it changes, below the root
	old, new []string
	// The lines of old that it replaces. The others are context, and so are those of new that stand
	// before and behind them.
	from, to int
}

// Overlay applies the patches of a directory to copies of the files below root, which it writes into
// the directory out, along with overlay.json for `go build -overlay`. It returns the path of that.
func Overlay(root, patches, out string) (string, error) {
	hunks, err := read(patches)
	if err != nil {
		return "", err
	}
	files := map[string]string{}
	var errs []error
	for path, of := range hunks {
		source, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", of[0].patch, err))
			continue
		}
		patched, err := apply(string(source), of)
		errs = append(errs, err)
		files[path] = patched
	}
	const applied = "test/mutations/applied.go"
	files[applied] = "package mutations\n\n// Applied is true: this is the overlay.\nconst Applied = true\n"
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	return write(root, out, files)
}

func write(root, out string, files map[string]string) (string, error) {
	if err := os.RemoveAll(out); err != nil {
		return "", err
	}
	replace := map[string]string{}
	for path, text := range files {
		to, err := filepath.Abs(filepath.Join(out, path+".txt")) // no package of the module's
		if err != nil {
			return "", err
		}
		from, err := filepath.Abs(filepath.Join(root, path))
		if err != nil {
			return "", err
		}
		replace[from] = to
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			return "", err
		}
		if err := os.WriteFile(to, []byte(text), 0o666); err != nil {
			return "", err
		}
	}
	list, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "\t")
	if err != nil {
		return "", err
	}
	path := filepath.Join(out, "overlay.json")
	return path, os.WriteFile(path, list, 0o666)
}

// read returns the hunks of all patches, by the file that they change.
func read(dir string) (map[string][]hunk, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: it holds no patch", dir)
	}
	hunks := map[string][]hunk{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		all, err := parse(filepath.Base(name), string(text))
		if err != nil {
			return nil, err
		}
		for _, h := range all {
			hunks[h.path] = append(hunks[h.path], h)
		}
	}
	return hunks, nil
}

func parse(patch, text string) (all []hunk, err error) {
	var h *hunk
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		kind, rest := " ", ""
		if line != "" {
			kind, rest = line[:1], line[1:]
		}
		path, begins := strings.CutPrefix(line, "@@ ")
		switch {
		case begins:
			all = append(all, hunk{patch: patch, path: path, from: -1})
			h = &all[len(all)-1]
		case h == nil || !strings.Contains(" -+", kind):
			return nil, fmt.Errorf("%s:%d: a line begins with \"@@ PATH\", a blank, - or +", patch, i+1)
		case kind == " ":
			h.old, h.new = append(h.old, rest), append(h.new, rest)
		default:
			if h.from < 0 {
				h.from = len(h.old)
			}
			if kind == "-" {
				h.old = append(h.old, rest)
			} else {
				h.new = append(h.new, rest)
			}
			h.to = len(h.old)
		}
	}
	for i := range all {
		if all[i].from < 0 {
			return nil, fmt.Errorf("%s: a hunk for %s changes nothing", patch, all[i].path)
		}
	}
	return all, nil
}

// apply returns the source with all hunks applied, and an import of this package.
func apply(source string, hunks []hunk) (string, error) {
	lines := strings.Split(source, "\n")
	type edit struct {
		hunk
		at int // the first replaced line
	}
	edits := make([]edit, 0, len(hunks))
	var errs []error
	for _, h := range hunks {
		at, found := find(lines, h.old)
		if found != 1 {
			errs = append(errs, fmt.Errorf("%s: these lines stand in %s %d times, not once:\n%s", h.patch,
				h.path, found, strings.Join(h.old, "\n")))
			continue
		}
		edits = append(edits, edit{h, at + h.from})
	}
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Compare(a.at, b.at) })
	var out []string
	next := 0
	for _, e := range edits {
		if e.at < next {
			errs = append(errs, fmt.Errorf("%s: it changes a line of %s that another patch changes: "+
				"put both into one hunk", e.patch, e.path))
			continue
		}
		out = append(append(out, lines[next:e.at]...), e.new[e.from:len(e.new)-(len(e.old)-e.to)]...)
		next = e.at + e.to - e.from
	}
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	out = append(out, lines[next:]...)
	const pkg = "\npackage "
	text := "\n" + strings.Join(out, "\n")
	i := strings.Index(text, pkg)
	if i < 0 {
		return "", fmt.Errorf("%s: it has no package clause", hunks[0].path)
	}
	end := i + len(pkg) + strings.Index(text[i+len(pkg):], "\n")
	return text[1:end] + "; import \"github.com/coordd/coordd/test/mutations\"" + text[end:], nil
}

// find returns where the lines stand in the text, and how often.
func find(text, lines []string) (at, found int) {
	for i := range len(text) - len(lines) + 1 {
		if slices.EqualFunc(text[i:i+len(lines)], lines, func(a, b string) bool {
			return strings.TrimSpace(a) == strings.TrimSpace(b)
		}) {
			at, found = i, found+1
		}
	}
	return at, found
}
