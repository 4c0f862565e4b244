package actors_test

import (
	"net/http"
	"strings"

	"github.com/coordd/coordd/internal/testkit/transport"
)

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
