package transport

import (
	"net/http"
	"strings"
)

// Anonymous answers as a Consul does to a client without a token, by rules that allow no keys while
// denied returns true: a list lacks what may not be read, and does not say so, nor does a
// transaction that reads. All else about keys is denied. A request is answered by the rights that
// there are when it begins.
func Anonymous(to http.RoundTripper, denied func() bool) Func {
	return func(r *http.Request) (*http.Response, error) {
		if !denied() {
			return to.RoundTrip(r)
		}
		text, q := Txn(r), r.URL.Query()
		reads := strings.Count(text, `"Verb":`) == strings.Count(text, `"Verb":"get`)
		switch {
		case text != "" && reads:
			return Answer(r, http.StatusOK, `{"Results":[],"Errors":null}`), nil
		case text != "":
			return Answer(r, http.StatusConflict, `{"Results":null,"Errors":[{"OpIndex":0,`+
				`"What":"Permission denied: anonymous token lacks permission"}]}`), nil
		case !strings.HasPrefix(r.URL.Path, "/v1/kv/"):
			return to.RoundTrip(r)
		case !q.Has("recurse") && !q.Has("keys"):
			return Answer(r, http.StatusForbidden, "Permission denied"), nil
		}
		resp, err := to.RoundTrip(r)
		if err == nil {
			resp.Body.Close()
			resp.StatusCode, resp.Body, resp.ContentLength = http.StatusNotFound, http.NoBody, 0
		}
		return resp, err
	}
}
