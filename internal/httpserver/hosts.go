package httpserver

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
)

// Hosts are the names by which a server may be asked for. A page on the internet can have its own
// name resolved to any address, 127.0.0.1 too (DNS rebinding): its requests are then of one origin
// with the server, and only the name in them tells. An address in its place cannot be rebound and
// is always allowed, as are localhost, this host's name and names without a dot, such as n1 or a
// container's: nobody can have one of those on the internet.
type Hosts struct {
	names map[string]bool
	flag  string
}

// NewHosts returns the names that are allowed: those given, as NAME or NAME:PORT, this host's own,
// and localhost. Flag is what allows another one, for the refusal's text.
func NewHosts(flag string, names ...string) *Hosts {
	h := &Hosts{names: map[string]bool{"localhost": true}, flag: flag}
	if own, err := os.Hostname(); err == nil {
		short, _, _ := strings.Cut(own, ".")
		names = append(names, own, short)
	}
	for _, name := range names {
		if name = hostOf(name); name != "" {
			h.names[name] = true
		}
	}
	return h
}

// hostOf is the host in a Host header, in the one spelling that is compared.
func hostOf(hostport string) string {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// Allow tells whether a request with this Host header is for the server. One without any is: no
// browser sends such.
func (h *Hosts) Allow(hostport string) bool {
	host := hostOf(hostport)
	if h.names[host] || strings.HasSuffix(host, ".localhost") || !strings.ContainsAny(host, ".:") {
		return true
	}
	_, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	return err == nil
}

// Only returns a handler that answers requests for the server and refuses others with 403 and these
// headers.
func (h *Hosts) Only(next http.Handler, refusal http.Header) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.Allow(r.Host) {
			next.ServeHTTP(w, r)
			return
		}
		name := hostOf(r.Host)
		maps.Copy(w.Header(), refusal)
		http.Error(w, fmt.Sprintf("this server is not called %.100q: ask for it by its address, "+
			"or, if that is one of its names, start it with %s NAME", name, h.flag),
			http.StatusForbidden)
	})
}
