package actors_test

import (
	"net/http"
	"strings"

	"github.com/coordd/coordd/internal/testkit/transport"
)

// denying is a way to Consul that denies whatever holds both texts.
func denying(to http.RoundTripper, verb, text string) http.RoundTripper {
	return transport.When(to, holding(verb, text), transport.Always(403, "Permission denied"))
}
func holding(texts ...string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		all := r.Method + " " + r.URL.String() + transport.Text(r)
		for _, text := range texts {
			if !strings.Contains(all, text) {
				return false
			}
		}
		return true
	}
}
