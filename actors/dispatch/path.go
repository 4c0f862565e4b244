package dispatch

import (
	"net/url"
	"strings"
)

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
