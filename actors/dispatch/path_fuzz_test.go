package dispatch_test

import (
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"github.com/coordd/coordd/actors/dispatch"
)

// Whatever path a request line holds: an item that is found is its first element and nothing of it
// is lost, so that the path can be made again from it; and an item can be asked for by every id
// there is.
func FuzzParsePath(f *testing.F) {
	for _, s := range []string{"", "/", "//", "/a", "/a/b", "/*", "/*/", "/%2A/", "/%2F/",
		"/a%2Fb/c", "/..", "/../x", "/%", "/%zz/", "/a%00/", "/\x80/", "/größe/x", "a", "*", "/a?b",
		"/ /"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		item, all, ok := dispatch.ParsePath(path)
		first, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		plain, err := url.PathUnescape(first)
		switch {
		case all && (first != "*" || !ok || item != ""):
			t.Errorf("%q is a broadcast", path)
		case ok && !all && (err != nil || item != plain || item == ""):
			t.Errorf("%q is for item %q", path, item)
		case !ok && item != "":
			t.Errorf("%q is for no item, and for %q", path, item)
		}
		if path != "" {
			if got, all, ok := dispatch.ParsePath("/" + url.PathEscape(path) + "/" + rest); !ok ||
				all != (path == "*" && url.PathEscape(path) == "*") || (!all && got != path) {
				t.Errorf("item %q, escaped, is read as %q (%v, %v)", path, got, all, ok)
			}
		}
	})
}

// resolved is what is left of a path below an item where these are separators, too, and what
// follows a semicolon counts or does not; false: the path leaves the item.
func resolved(path string, separators []string, params bool) (string, bool) {
	for _, s := range separators {
		path = strings.ReplaceAll(path, s, "/")
	}
	var left []string
	for element := range strings.SplitSeq(path, "/") {
		if !params {
			element, _, _ = strings.Cut(element, ";")
		}
		switch plain, _ := url.PathUnescape(element); {
		case plain == ".." && len(left) == 0:
			return "", false
		case plain == "..":
			left = left[:len(left)-1]
		case plain != "" && plain != ".":
			left = append(left, element)
		}
	}
	return strings.Join(left, "/"), true
}

// A service may have a proxy before it, which reads paths in another way and resolves them first.
func TestAPathThatIsSentLeavesItsItemByNoReadingAndNoTwo(t *testing.T) {
	separators := []string{"%2F", `\`, "%5C"}
	var readings []func(string) (string, bool)
	for mask := range 16 {
		var these []string
		for i, s := range separators {
			if mask&(1<<i) != 0 {
				these = append(these, s)
			}
		}
		readings = append(readings, func(path string) (string, bool) {
			return resolved(path, these, mask&8 != 0)
		})
	}
	parts := append([]string{"..", "%2e.", ".", "x", "/", ";"}, separators...)
	random := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		path := ""
		for range 1 + random.IntN(12) {
			path += parts[random.IntN(len(parts))]
		}
		if dispatch.Climbs(path) {
			continue
		}
		for _, first := range readings {
			left, ok := first(path)
			for _, second := range readings {
				if _, again := second(left); !ok || !again {
					t.Fatalf("%q is sent, and leaves its item", path)
				}
			}
		}
	}
}
