package dispatch_test

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/actors/routing"
)

// asking is a locator that asks Consul at an address.
type asking struct {
	*table
	consul string
}

func (a asking) ConsulAddress() string { return a.consul }

// A false record would have the dispatcher send requests to what only its own host reaches.
func TestOnlyAddressesOfTheAllowedNetworksAreConnectedTo(t *testing.T) {
	public := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	for _, c := range []struct {
		networks []netip.Prefix // nil: the default
		address  string
		allowed  bool
	}{
		{nil, "127.0.0.1:9000", true},
		{nil, "[::1]:9000", true},
		{nil, "10.1.2.3:80", true},
		{nil, "172.31.0.1:80", true},
		{nil, "192.168.0.1:80", true},
		{nil, "[::ffff:10.1.2.3]:80", true},
		{nil, "[fd12::1]:80", true},
		{nil, "169.254.1.1:80", true},
		{nil, "[fe80::1%eth0]:80", true},
		{nil, "8.8.8.8:80", false},
		{nil, "[2001:db8::1]:80", false},
		{nil, "[64:ff9b::7f00:1]:80", false}, // 127.0.0.1, by NAT64
		{nil, "0.0.0.0:80", false},
		{nil, "[::]:80", false},
		{nil, "224.0.0.1:80", false},
		{nil, "169.254.169.254:80", false},
		{nil, "[::ffff:169.254.169.254]:80", false},
		{nil, "[fd00:ec2::254]:80", false},
		{nil, "127.0.0.1:8500", false}, // Consul's port, on any host
		{nil, "10.1.2.3:8500", false},
		{public, "8.8.8.8:80", true},
		{public, "[2001:db8::1]:80", true},
		{public, "169.254.169.254:80", false},
		{public, "[fd00:ec2::254]:80", false},
		{public, "8.8.8.8:8500", false},
		{public[:1], "[2001:db8::1]:80", false},
	} {
		err := dispatch.Config{Networks: c.networks,
			Locator: asking{nil, "consul.example:8500"}}.Check(c.address)
		if (err == nil) != c.allowed {
			t.Errorf("%s, with %v: %v", c.address, c.networks, err)
		}
	}
	for _, consul := range []string{"consul.example:80", "consul.example:443", ""} {
		for _, port := range []string{":80", ":443"} {
			if err := (dispatch.Config{Locator: asking{nil, consul}}).Check("10.1.2.3" +
				port); err != nil {
				t.Errorf("with Consul at %q: %v", consul, err)
			}
		}
	}
}

// What counts is the address that a name is resolved to.
func TestARequestIsNotSentWhereConsulIsAsked(t *testing.T) {
	var consul string
	w := newWorld(t, func(c *dispatch.Config) {
		consul = (&world{t: t}).service(func(http.ResponseWriter, *http.Request) {
			t.Error("Consul was asked")
		})
		c.Locator = asking{c.Locator.(*table), consul}
	})
	_, port, err := net.SplitHostPort(consul)
	if err != nil {
		t.Fatal(err)
	}
	w.table.set("a", routing.Location{Member: "n1", Address: "localhost:" + port, Grant: 1})
	w.table.members = []routing.Member{{ID: "n1", Address: consul}}
	a := w.do("GET", "/a/v1/kv/x", "")
	w.refused(a, 502, dispatch.ReasonForbidden)
	if !strings.Contains(a.body, "has Consul's port") {
		t.Error(a.body)
	}
	if a := w.do("GET", "/*/v1/kv/x", ""); a.StatusCode != 503 ||
		!strings.Contains(gathered(t, a).Missing["n1"], "has Consul's port") {
		t.Errorf("%s %s", a.Status, a.body)
	}
}
