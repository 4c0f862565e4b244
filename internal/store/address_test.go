package store_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/store"
	"github.com/hashicorp/consul/api"
)

func TestAUserAndAPasswordInTheAddressAreUsedAndNotPartOfIt(t *testing.T) {
	for full, want := range map[string][3]string{
		"127.0.0.1:8500":                   {"127.0.0.1:8500"},
		"https://consul.example/x@y":       {"https://consul.example/x@y"},
		"unix:///run/a@b.sock":             {"unix:///run/a@b.sock"},
		"u:p@127.0.0.1:8500":               {"127.0.0.1:8500", "u", "p"},
		"http://u:p@[::1]:8500/prefix":     {"http://[::1]:8500/prefix", "u", "p"},
		"https://u@consul.example":         {"https://consul.example", "u", ""},
		"https://u%40x:p%2F%3Aq@h":         {"https://h", "u@x", "p/:q"},
		"https://u:100%@h":                 {"https://h", "u", "100%"},
		"https://u:p@q@consul.example:443": {"https://consul.example:443", "u", "p@q"},
		// What should have been escaped is a password all the same, and not shown as an address.
		"http://u:p/q@consul.example":        {"http://consul.example", "u", "p/q"},
		"http://u:p?q#r@consul.example:8500": {"http://consul.example:8500", "u", "p?q#r"},
		"http://u:1/q@127.0.0.1:8500/prefix": {"http://127.0.0.1:8500/prefix", "u", "1/q"},
		"u:p/q@consul.example:8500":          {"consul.example:8500", "u", "p/q"},
		"//u:p@consul.example:8500":          {"consul.example:8500", "u", "p"},
		"https://consul.example:8501/x@y":    {"https://consul.example:8501/x@y"},
		"https://[::1]:8501/x@y":             {"https://[::1]:8501/x@y"},
		"https://[::1]/x@y":                  {"https://[::1]/x@y"},
	} {
		address, auth := store.SplitAddress(full)
		if auth == nil {
			auth = &api.HttpBasicAuth{}
		}
		if got := [3]string{address, auth.Username, auth.Password}; got != want {
			t.Errorf("%s: %q, want %q", full, got, want)
		}
	}

	var user, password string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ = r.BasicAuth()
		_, _ = w.Write([]byte(`"leader"`))
	}))
	defer server.Close()
	client, err := store.NewClient(&api.Config{Address: strings.Replace(server.URL, "://",
		"://me:s%40cret@", 1)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Status().Leader(); err != nil {
		t.Fatal(err)
	}
	if user != "me" || password != "s@cret" {
		t.Errorf("asked as %q with %q", user, password)
	}
}

// The address that is kept from requests is the one that the client asks, however it was written.
func TestTheAddressThatAClientAsksIsFoundOut(t *testing.T) {
	at := func(consul string) string {
		cfg := api.DefaultConfig()
		cfg.Address = consul
		client, err := store.NewClient(cfg)
		if err != nil {
			t.Fatal(err)
		}
		s, err := store.New(store.Config{Client: client, Address: consul})
		if err != nil {
			t.Fatal(err)
		}
		return s.ConsulAddress()
	}
	for consul, want := range map[string]string{
		"10.0.0.5:8500": "10.0.0.5:8500", "consul": "consul:80", "http://consul": "consul:80",
		"https://consul/x": "consul:443", "http://user:pass@consul:8500": "consul:8500",
		"http://[::1]:8500": "[::1]:8500", "unix:///run/consul": "", "localhost": "localhost:80",
		"[fd00::5]": "[fd00::5]:80", "http://[fd00::5]": "[fd00::5]:80",
		"consul:": "consul:80", "[::1]:": "[::1]:80",
	} {
		if got := at(consul); got != want {
			t.Errorf("%s is at %q, want %q", consul, got, want)
		}
	}
	t.Setenv("CONSUL_HTTP_SSL", "true") // counts also where the address says http
	for consul, want := range map[string]string{
		"consul": "consul:443", "[::1]": "[::1]:443", "http://consul/x": "consul:443",
		"consul:8501": "consul:8501",
	} {
		if got := at(consul); got != want {
			t.Errorf("with TLS %s is at %q, want %q", consul, got, want)
		}
	}
	t.Setenv("CONSUL_HTTP_SSL", "")
	t.Setenv("CONSUL_HTTP_ADDR", "agent.example:8501")
	client, err := api.NewClient(api.DefaultConfig()) // the library's own
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.New(store.Config{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.ConsulAddress(); got != "agent.example:8501" {
		t.Errorf("a client of the library's own is at %q", got)
	}
}
