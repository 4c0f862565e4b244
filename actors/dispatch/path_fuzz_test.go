package dispatch_test

import (
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
