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
		"https://u%40x:p%2F%3Aq@h":         {"https://h", "u@x", "p/:q"},
		"https://u:p@q@consul.example:443": {"https://consul.example:443", "u", "p@q"},
		// What should have been escaped is a password all the same, and not shown as an address.
		"http://u:p/q@consul.example":        {"http://consul.example", "u", "p/q"},
		"http://u:1/q@127.0.0.1:8500/prefix": {"http://127.0.0.1:8500/prefix", "u", "1/q"},
		"//u:p@consul.example:8500":          {"consul.example:8500", "u", "p"},
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

	var user, password, path string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ = r.BasicAuth()
		path = r.URL.Path
		_, _ = w.Write([]byte(`"leader"`))
	}))
	defer server.Close()
	client, err := store.NewClient(&api.Config{Address: strings.Replace(server.URL, "://",
		"://me:s%40cret@", 1) + "/consul/"}) // a browser adds the last slash
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Status().Leader(); err != nil {
		t.Fatal(err)
	}
	if user != "me" || password != "s@cret" || path != "/consul/v1/status/leader" {
		t.Errorf("asked for %s as %q with %q", path, user, password)
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
		return store.ConsulAddress(client, consul)
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
}
