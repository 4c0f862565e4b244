package transport

import "net/http"

// TakesNoCheck are the answers, by what gives them, of agents that take no service and no check.
var TakesNoCheck = map[string]func(*http.Request) (*http.Response, error){
	"denied": func(r *http.Request) (*http.Response, error) {
		return Answer(r, http.StatusForbidden, "Permission denied"), nil
	},
	"a proxy without that path": func(r *http.Request) (*http.Response, error) {
		return Answer(r, http.StatusNotFound, "<html>"), nil
	},
	"another API": func(r *http.Request) (*http.Response, error) {
		return Answer(r, http.StatusMethodNotAllowed, "method PUT not allowed"), nil
	},
	"silent": Hang,
}
