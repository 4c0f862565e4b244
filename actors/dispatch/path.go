package dispatch

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// escaped returns r with a path that is sent as it is read here. One with a character that no URL
// may have net/url would make anew of what it means, and lose all that was escaped in it: of that
// only such characters are escaped.
func escaped(r *http.Request) *http.Request {
	var path strings.Builder
	for _, c := range []byte(r.URL.RawPath) {
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
			strings.IndexByte(pathBytes, c) >= 0 {
			path.WriteByte(c)
		} else {
			fmt.Fprintf(&path, "%%%02X", c)
		}
	}
	if path.String() == r.URL.RawPath {
		return r
	}
	out, to := *r, *r.URL
	to.RawPath = path.String()
	out.URL = &to
	return &out
}

// pathBytes are what the path of a URL may have beside letters and digits (RFC 3986, 3.3, and
// brackets, which net/url leaves alone): all else it has escaped.
const pathBytes = "-._~!$&'()*+,;=:@/%[]"

// target is what a path asks for.
type target struct {
	item       string
	all        bool // a broadcast
	ok         bool
	leavesItem bool // it leaves the item by ".." elements
}

// parsePath finds the item in an escaped path: its first element, unescaped. An element that is a
// bare asterisk means all members; an item of that name is written %2A.
func parsePath(escaped string) target {
	rest, ok := strings.CutPrefix(escaped, "/")
	if !ok {
		return target{}
	}
	first, below, _ := strings.Cut(rest, "/")
	if first == "*" {
		return target{all: true, ok: true, leavesItem: leavesItem(below)}
	}
	item, err := url.PathUnescape(first)
	if err != nil || item == "" {
		return target{}
	}
	return target{item: item, ok: true, leavesItem: item == ".." || leavesItem(below)}
}

// leavesItem tells whether a path below an item leaves it: the service, which gets the path as it
// is, may resolve "/a/../b/x" to what belongs to another item. By RFC 3986 a slash alone separates
// elements. A service, or a proxy of its own, may read %2F and a backslash as slashes, too, and cut
// off what follows a semicolon. So ".." counts wherever anybody finds it, and a name where all do:
// at the beginning of an element.
func leavesItem(escaped string) bool {
	depth := 0
	for element := range strings.SplitSeq(escaped, "/") {
		if plain, err := url.PathUnescape(element); err == nil {
			element = plain
		}
		parts := strings.Split(strings.ReplaceAll(element, `\`, "/"), "/")
		for i, part := range parts {
			switch part, _, _ = strings.Cut(part, ";"); {
			case part == "..":
				if depth--; depth < 0 {
					return true
				}
			case i == 0 && part != "" && part != ".":
				depth++
			}
		}
	}
	return false
}
