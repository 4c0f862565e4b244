package testkit

import (
	"net/http"
	"net/http/httptest"
)

// Request is one to a handler under the name localhost. The headers are names and values in turn;
// Host is the name that it is asked for by.
func Request(method, url string, headers ...string) *http.Request {
	r := httptest.NewRequest(method, url, nil)
	r.Host = "localhost"
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		} else {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	return r
}

// Send returns what a handler answers to such a request.
func Send(h http.Handler, method, url string, headers ...string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, Request(method, url, headers...))
	return w
}
