package devconsul

import (
	"net/http"
	"strings"
)

// checkEdition refuses namespaces and admin partitions, as the Community Edition does: where it
// looks at them. A transaction, for one, is carried out without.
func checkEdition(r *http.Request) error {
	switch path := r.URL.Path; {
	case path == "/v1/txn", strings.HasPrefix(path, "/v1/status/"),
		path == "/v1/catalog/datacenters", path == "/v1/agent/self", path == "/v1/agent/version":
		return nil
	}
	noNamespace := r.URL.Path != "/v1/agent/members" && r.URL.Path != "/v1/catalog/nodes"
	for _, e := range []struct {
		header, parameter, what string
		looks                   bool
	}{
		{"X-Consul-Namespace", "ns", "Namespaces", noNamespace},
		{"X-Consul-Partition", "partition", "Partitions", true},
	} {
		if e.looks && r.Header.Get(e.header) != "" {
			return badRequest("Invalid header: %q - %s are a Consul Enterprise feature", e.header,
				e.what)
		}
		if e.looks && r.URL.Query().Get(e.parameter) != "" {
			return badRequest("Invalid query parameter: %q - %s are a Consul Enterprise feature",
				e.parameter, e.what)
		}
	}
	return nil
}
