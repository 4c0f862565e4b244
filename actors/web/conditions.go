package web

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// conditions are If-Match and If-None-Match of a request (RFC 9110, 13.1), with one ETag or an
// asterisk; empty: it has none.
type conditions struct{ match, none string }

// conditionsOf reads those of a request. A read takes If-None-Match. A write takes one of both, and
// of If-None-Match the asterisk alone: the key must not exist.
func conditionsOf(r *http.Request, reads bool) (c conditions, err error) {
	if c.match, err = tagOf(r.Header, "If-Match"); err != nil {
		return c, err
	}
	if c.none, err = tagOf(r.Header, "If-None-Match"); err != nil {
		return c, err
	}
	switch {
	case reads && c.match != "":
		return c, errors.New("If-Match is for writes: give If-None-Match, or none")
	case reads:
	case c.match == "*":
		return c, errors.New("If-Match: *: give the ETag of an earlier answer")
	case c.none != "" && c.none != "*", c.none != "" && c.match != "":
		return c, errors.New("a write takes If-Match with an ETag, or If-None-Match: *")
	}
	return c, nil
}

// any tells whether there are conditions.
func (c conditions) any() bool { return c != conditions{} }

// differs tells whether If-None-Match holds for what has this ETag, and exists or does not.
func (c conditions) differs(tag string, exists bool) bool {
	return c.none == "" || c.none != tag && (c.none != "*" || !exists)
}

// tagOf reads a header. The tags here are all strong; a cache on the way may have made one weak.
func tagOf(h http.Header, name string) (string, error) {
	lines := h.Values(name)
	if len(lines) == 0 {
		return "", nil
	}
	text := strings.TrimPrefix(strings.TrimSpace(strings.Join(lines, ",")), "W/")
	inner, quoted := strings.CutPrefix(text, `"`)
	inner, closed := strings.CutSuffix(inner, `"`)
	if text != "*" && (!quoted || !closed || strings.ContainsAny(inner, "\" \t")) {
		return "", fmt.Errorf(`%s: %s: give "*", or the ETag of an earlier answer with its `+
			`quotes, such as "1234"`, name, quote(text))
	}
	return text, nil
}
