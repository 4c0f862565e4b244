package dispatch

import (
	"net/url"
	"strings"
)

// target is what a path asks for.
type target struct {
	item string
	all  bool // a broadcast
	ok   bool
}

// parsePath finds the item in an escaped path: its first element, unescaped. An element that is a bare asterisk means
// all members; an item of that name is written %2A.
func parsePath(escaped string) target {
	rest, ok := strings.CutPrefix(escaped, "/")
	if !ok {
		return target{}
	}
	first, _, _ := strings.Cut(rest, "/")
	if first == "*" {
		return target{all: true, ok: true}
	}
	item, err := url.PathUnescape(first)
	if err != nil || item == "" {
		return target{}
	}
	return target{item: item, ok: true}
}
