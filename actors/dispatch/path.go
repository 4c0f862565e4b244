package dispatch

import (
	"net/url"
	"strings"
)

// target is what a path asks for.
type target struct {
	item   string
	all    bool // a broadcast
	ok     bool
	climbs bool // it has ".." elements, which may leave the item
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
		return target{all: true, ok: true, climbs: climbs(below)}
	}
	item, err := url.PathUnescape(first)
	if err != nil || item == "" {
		return target{}
	}
	return target{item: item, ok: true, climbs: item == ".." || climbs(below)}
}

// climbs tells whether a path below an item has a ".." element. The service, which gets the path as
// it is, may resolve it to what belongs to another item. It may read %2F and a backslash as
// slashes, and cut off what follows a semicolon.
func climbs(escaped string) bool {
	plain, err := url.PathUnescape(escaped)
	if err != nil {
		return true
	}
	for part := range strings.SplitSeq(strings.ReplaceAll(plain, `\`, "/"), "/") {
		if name, _, _ := strings.Cut(part, ";"); name == ".." {
			return true
		}
	}
	return false
}
