package dispatch_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/actors/routing"
	"github.com/hashicorp/consul/api"
)

// A false member whose record names Consul's own loopback address would read and write it through
// the dispatcher.
func TestARequestGoesToNoLoopbackAddressButItsOwn(t *testing.T) {
	for name, c := range map[string]struct {
		reach   func(own, other, consul string) dispatch.Reach
		refused string // of own, other, consul
	}{
		"nothing is said": {func(_, _, _ string) dispatch.Reach {
			return dispatch.Reach{}
		}, "own other consul"},
		"the service is elsewhere": {func(_, _, consul string) dispatch.Reach {
			return dispatch.Reach{Own: "10.0.0.7:9000", Never: []string{consul}}
		}, "own other consul"},
		"its own": {func(own, _, consul string) dispatch.Reach {
			return dispatch.Reach{Own: own, Never: []string{consul}}
		}, "other consul"},
		"the network is allowed": {func(_, _, consul string) dispatch.Reach {
			return dispatch.Reach{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
				Never: []string{consul}}
		}, "consul"},
		"Consul by its name": {func(own, _, consul string) dispatch.Reach {
			_, port, _ := net.SplitHostPort(consul)
			return dispatch.Reach{Own: own, Never: []string{net.JoinHostPort("localhost", port)}}
		}, "other consul"},
		"Consul's is the own": {func(own, _, _ string) dispatch.Reach {
			return dispatch.Reach{Own: own, Never: []string{own}}
		}, "own other consul"},
		"another network is allowed": {func(_, _, _ string) dispatch.Reach {
			return dispatch.Reach{Networks: []netip.Prefix{netip.MustParsePrefix("169.254.0.0/16")}}
		}, "own other consul"},
	} {
		t.Run(name, func(t *testing.T) {
			var reach dispatch.Reach
			w := newWorld(t, func(c *dispatch.Config) { c.Reach = &reach })
			here := func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "here") }
			at := map[string]string{}
			for _, id := range []string{"own", "other", "consul"} {
				at[id] = w.service(here)
				w.table.set(id, routing.Location{Member: id, Address: at[id], Token: 1})
				w.table.members = append(w.table.members, routing.Member{ID: id, Address: at[id]})
			}
			reach = c.reach(at["own"], at["other"], at["consul"])
			g := gathered(t, w.do("GET", "/*/", ""))
			for id := range at {
				a := w.do("PUT", "/"+id+"/v1/kv/x", "v")
				if !strings.Contains(c.refused, id) {
					if a.body != "here" || g.Answers[id].Body != "here" {
						t.Errorf("%s: %s %s; %v", id, a.Status, a.body, g.Missing)
					}
					continue
				}
				w.refused(a, 502, dispatch.ReasonForbidden)
				if !strings.Contains(a.body, "--route-allow") || !strings.Contains(g.Missing[id],
					"--route-allow") {
					t.Errorf("%s: it does not say what to do: %s; %v", id, a.body, g.Missing)
				}
			}
		})
	}
}

// Whatever way an address is written, what counts is where the connection goes.
func TestAnAddressIsJudgedByWhatItResolvesTo(t *testing.T) {
	w := newWorld(t, func(c *dispatch.Config) { c.Reach = &dispatch.Reach{} })
	for _, host := range []string{"localhost", "127.0.0.1", "127.9.9.9", "0.0.0.0", "[::]", "[::1]",
		"[::ffff:127.0.0.1]", "169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]"} {
		w.table.set("a", routing.Location{Member: "n1", Address: host + ":9", Token: 1})
		if a := w.do("GET", "/a/",
			""); a.Header.Get(dispatch.HeaderReason) != dispatch.ReasonForbidden &&
			host != "[fe80::1]" && host != "[::1]" && host != "[::]" {
			t.Errorf("%s: %s %s", host, a.Status, a.body)
		} else if a.StatusCode != 502 {
			t.Errorf("%s: %s", host, a.Status)
		}
	}
}

// An agent that listens on all addresses of its host is Consul on each of them, whichever of them
// coordd asks it by.
func TestConsulIsNotReachedByAnotherAddressOfItsHost(t *testing.T) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	outer := "127.9.9.9" // on a host without another one, let through by its network below
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			outer = n.IP.String()
		}
	}
	ln, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	consul := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter,
		_ *http.Request) {
		fmt.Fprint(rw, "Consul")
	}))
	consul.Listener.Close()
	consul.Listener = ln
	consul.Start()
	t.Cleanup(consul.Close)
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	at := net.JoinHostPort(outer, port)
	for _, never := range []string{"127.0.0.1", "localhost", "0.0.0.0"} {
		w := newWorld(t, func(c *dispatch.Config) {
			c.Reach = &dispatch.Reach{Own: "10.0.0.7:9000",
				Networks: []netip.Prefix{netip.MustParsePrefix("127.9.9.9/32")},
				Never:    []string{net.JoinHostPort(never, port)}}
		})
		w.table.set("a", routing.Location{Member: "n1", Address: at, Token: 1})
		if a := w.do("GET", "/a/v1/kv/x",
			""); a.Header.Get(dispatch.HeaderReason) != dispatch.ReasonForbidden {
			t.Errorf("Consul at %s was asked at %s: %s %s", never, at, a.Status, a.body)
		}
	}
}

func TestNoAddressOfACloudsMetadataIsReachedHoweverItIsWritten(t *testing.T) {
	for _, host := range []string{
		"169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192",
		"fd00:ec2::254", "fd20:ce::254", "fd00:c1::a9fe:a9fe", "fe80::a9fe:a9fe%eth0",
		"fd00:ec2::23", "fd00:a9fe:a9fe::1", "fd00:42::42", "fd00:100::100:200",
		"::ffff:169.254.169.254", "64:ff9b::169.254.169.254", "64:ff9b::100.100.100.200",
		"64:ff9b::127.0.0.1",
		"::127.0.0.1", "2002:7f00:1::", "2002:a9fe:a9fe::1", "::ffff:0:127.0.0.1",
		// a network's own NAT64, wherever it has the IPv4 address: /96, /64, /48
		"64:ff9b:1::169.254.169.254", "64:ff9b:1:0:a9:fea9:fe00::", "64:ff9b:1:a9fe:a9:fe00::",
	} {
		at := net.JoinHostPort(host, "80")
		err := (&dispatch.Reach{Own: "10.0.0.7:9000"}).Check(t.Context(), "member.example:80", at)
		if err == nil {
			t.Errorf("%s is sent to", at)
		}
		any4, any6 := netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")
		all := dispatch.Reach{Networks: []netip.Prefix{any4, any6}}
		if err := all.Check(t.Context(), "member.example:80", at); err != nil {
			t.Errorf("%s, which is allowed: %v", at, err)
		}
	}
	for _, host := range []string{
		"10.0.0.7", "192.168.1.1", "100.64.0.1", "192.0.2.1", "8.8.8.8", "fd00::1", "2001:db8::1",
		"64:ff9b::8.8.8.8", "172.17.0.2",
	} {
		at := net.JoinHostPort(host, "80")
		if err := (&dispatch.Reach{}).Check(t.Context(), "member.example:80", at); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// asking is a locator that asks a Consul.
type asking struct {
	*table
	router *routing.Router
}

func (a asking) ConsulAddress() string { return a.router.ConsulAddress() }

// A host that allows loopback, as docs/examples/routed does, need not say where Consul is: its
// router knows.
func TestTheConsulThatTheLocatorAsksIsNeverSentTo(t *testing.T) {
	var _ interface{ ConsulAddress() string } = (*routing.Router)(nil) // as New asks for it
	for name, reach := range map[string]*dispatch.Reach{
		"loopback is allowed": loopback(), "nothing is said": nil,
	} {
		w := newWorld(t, func(c *dispatch.Config) {
			here := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter,
				_ *http.Request) {
				fmt.Fprint(rw, "Consul")
			}))
			t.Cleanup(here.Close)
			consul := api.DefaultConfig()
			consul.Address = here.URL
			client, err := api.NewClient(consul)
			if err != nil {
				t.Fatal(err)
			}
			router, err := routing.New(routing.Config{Service: "demo", Client: client})
			if err != nil {
				t.Fatal(err)
			}
			locator := c.Locator.(*table)
			locator.set("a", routing.Location{Member: "n1",
				Address: here.Listener.Addr().String(), Token: 1})
			c.Locator, c.Reach = asking{locator, router}, reach
		})
		a := w.do("GET", "/a/v1/kv/x", "")
		w.refused(a, 502, dispatch.ReasonForbidden)
		if !strings.Contains(a.body, "Consul's address") {
			t.Errorf("%s: %s", name, a.body)
		}
	}
}

// Whoever says nothing of Reach gets what is safe.
func TestWithoutAReachNothingIsSentToLoopback(t *testing.T) {
	w := newWorld(t, func(c *dispatch.Config) { c.Reach = nil })
	w.owner("a", "n1", 1, func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "here") })
	w.refused(w.do("GET", "/a/", ""), 502, dispatch.ReasonForbidden)
}

// An address is the same with its port written otherwise, or left to what Consul's client takes.
func TestConsulsAddressIsKnownHoweverItIsWritten(t *testing.T) {
	networks := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	for _, never := range []string{"127.0.0.1:8500", "127.0.0.1:08500", "[::ffff:127.0.0.1]:8500"} {
		r := dispatch.Reach{Networks: networks, Never: []string{never}}
		if err := r.Check(t.Context(), "member.example:8500", "127.0.0.1:8500"); err == nil {
			t.Errorf("Consul at %s is sent to", never)
		}
		if err := r.Check(t.Context(), "member.example:8501", "127.0.0.1:8501"); err != nil {
			t.Errorf("beside Consul at %s: %v", never, err)
		}
	}
}

// Nor does it matter in which of the forms that lead to it either side writes an IPv4 address.
func TestConsulsAddressIsKnownInEachFormOfIPv6(t *testing.T) {
	forms := []string{"10.0.0.5", "::ffff:10.0.0.5", "64:ff9b::a00:5", "2002:a00:5::1",
		"::ffff:0:a00:5", "::a00:5"}
	for _, never := range forms {
		r := dispatch.Reach{Never: []string{net.JoinHostPort(never, "8500")}}
		for _, form := range forms {
			if err := r.Check(t.Context(), "n1:8500", net.JoinHostPort(form, "8500")); err == nil {
				t.Errorf("Consul at %s is sent to by %s", never, form)
			}
		}
		if err := r.Check(t.Context(), "n1:8500", "10.0.0.6:8500"); err != nil {
			t.Errorf("beside Consul at %s: %v", never, err)
		}
	}
	for _, other := range []string{"fd00::5", "64:ff9b:1::a00:5"} { // which lead to no known one
		at := net.JoinHostPort(other, "8500")
		r := dispatch.Reach{Never: []string{at},
			Networks: []netip.Prefix{netip.MustParsePrefix("::/0")}}
		if err := r.Check(t.Context(), at, at); err == nil {
			t.Errorf("Consul at %s is sent to", other)
		}
	}
}

// So it is with what is another address of Consul's host.
func TestAnAddressOfThisHostIsKnownInEachFormOfIPv6(t *testing.T) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		n, ok := a.(*net.IPNet)
		if !ok || n.IP.To4() == nil || !n.IP.IsGlobalUnicast() {
			continue
		}
		b := n.IP.To4()
		form := fmt.Sprintf("64:ff9b::%x:%x", int(b[0])<<8|int(b[1]), int(b[2])<<8|int(b[3]))
		for _, c := range [][2]string{{"127.0.0.1", form}, {form, n.IP.String()}} {
			r := dispatch.Reach{Never: []string{net.JoinHostPort(c[0], "8500")}}
			if err := r.Check(t.Context(), "n1:8500", net.JoinHostPort(c[1], "8500")); err == nil {
				t.Errorf("Consul at %s is sent to by %s", c[0], c[1])
			}
		}
	}
}
