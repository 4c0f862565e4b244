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
// is, may resolve "/a/../b/x" to what belongs to another item. It may read %2F and a backslash as
// slashes, and cut off what follows a semicolon, too.
func leavesItem(escaped string) bool {
	path, err := url.PathUnescape(escaped)
	if err != nil {
		path = escaped
	}
	depth := 0
	for element := range strings.FieldsFuncSeq(path, func(r rune) bool {
		return r == '/' || r == '\\'
	}) {
		switch element, _, _ = strings.Cut(element, ";"); element {
		case "..":
			if depth--; depth < 0 {
				return true
			}
		case ".", "":
		default:
			depth++
		}
	}
	return false
}
