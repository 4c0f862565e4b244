package web

import (
	"fmt"
	"net/http"
	"strings"
)

// conditions are those of a request by RFC 9110, 13.1: If-Match and If-None-Match. Dates are not
// compared: nothing here has one.
type conditions struct{ match, none *tagList }

func conditionsOf(h http.Header) (c conditions, err error) {
	if c.match, err = tagListOf(h, "If-Match"); err == nil {
		c.none, err = tagListOf(h, "If-None-Match")
	}
	return c, err
}

// any tells whether there are conditions.
func (c conditions) any() bool { return c.match != nil || c.none != nil }

// matches tells whether If-Match holds for what has this ETag and exists, or does not: then nothing
// matches.
func (c conditions) matches(tag string, exists bool) bool {
	return c.match == nil || exists && (c.match.star || c.match.has(tag, false))
}

// differs tells whether If-None-Match holds.
func (c conditions) differs(tag string, exists bool) bool {
	return c.none == nil || !(c.none.star && exists || c.none.has(tag, true))
}

// tagList is an asterisk, or a list of entity tags.
type tagList struct {
	star bool
	tags []string // as they are written: W/"…" is a weak one
}

// has compares as If-Match does, or weakly, as If-None-Match does. The tags here are all strong.
func (l *tagList) has(tag string, weakly bool) bool {
	for _, t := range l.tags {
		if weakly {
			t = strings.TrimPrefix(t, "W/")
		}
		if t == tag {
			return true
		}
	}
	return false
}

// tagListOf reads a header; nil: there is none.
func tagListOf(h http.Header, name string) (*tagList, error) {
	lines, ok := h[name]
	if !ok {
		return nil, nil
	}
	bad := fmt.Errorf(`%s: %s: give "*", or the ETag of an earlier answer with its quotes, `+
		`such as "1234", or several, separated by commas`,
		name, quote(strings.Join(lines, ", ")))
	l := &tagList{}
	rest := strings.Trim(strings.Join(lines, ","), " \t,")
	if rest == "*" {
		l.star = true
		return l, nil
	}
	for rest != "" {
		weak := ""
		if strings.HasPrefix(rest, "W/") {
			weak, rest = "W/", rest[2:]
		}
		if !strings.HasPrefix(rest, `"`) {
			return nil, bad
		}
		opaque, after, closed := strings.Cut(rest[1:], `"`)
		if !closed || strings.ContainsFunc(opaque, func(r rune) bool {
			return r <= ' ' || r == 0x7f
		}) {
			return nil, bad
		}
		l.tags = append(l.tags, weak+`"`+opaque+`"`)
		next := strings.TrimLeft(after, " \t")
		if next != "" && next[0] != ',' {
			return nil, bad
		}
		rest = strings.TrimLeft(next, " \t,")
	}
	if len(l.tags) == 0 {
		return nil, bad
	}
	return l, nil
}
