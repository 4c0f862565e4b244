package dispatch

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"syscall"
)

// Reach says where requests may be sent. A member's record names an address, and whoever can write
// records could have a dispatcher connect to what only its own host reaches: Consul's agent on
// loopback, a cloud's metadata on 169.254.169.254. So loopback and link-local addresses and those
// of metadata are refused, as what the name resolves to at the moment of connecting, but for these.
// An IPv4 address counts also where it is written within an IPv6 one. The zero Reach allows none of
// them.
type Reach struct {
	// Own is the address, host:port, that this host's own member published; empty: none. It is
	// always sent to.
	Own string
	// Networks are loopback, link-local and metadata's networks, and those behind a NAT64 of the
	// network's own (64:ff9b:1::/48), that are sent to as well: where the whole service is on one
	// host, 127.0.0.0/8. With 0.0.0.0/0 and ::/0 it is all of them.
	Networks []netip.Prefix
	// Never are addresses, host:port, that nothing is sent to, whatever else is said here: those of
	// Consul other than the one that the [Config].Locator asks, if that is a *routing.Router. That
	// one is never sent to as well. A loopback address with the port of one of them is taken for
	// it, and so is, if Consul is on this host, any other address of this host with that port.
	// Nothing is known of Consul's other ports, nor of its other agents and servers: what of them
	// the network reaches is for the network, or Consul's ACLs, to keep.
	Never []string
}

// forbidden is the error for an address that is not sent to.
type forbidden struct{ why string }

func (f *forbidden) Error() string { return f.why }

// control checks what a connection to target, a host:port, is about to be made to: for net.Dialer.
// Consul is the address that is known of it; empty: none is.
func (r *Reach) control(target, consul string) func(context.Context, string, string,
	syscall.RawConn) error {
	return func(ctx context.Context, _, resolved string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(resolved)
		if err != nil {
			return &forbidden{fmt.Sprintf("%s is no address", resolved)}
		}
		return r.check(ctx, target, consul, at.Addr().Unmap().WithZone(""), at.Port())
	}
}

func (r *Reach) check(ctx context.Context, target, consul string, written netip.Addr,
	port uint16) error {
	ip := embeddedIPv4(written)
	if ip == netip.IPv4Unspecified() { // which is this host, to connect to
		ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	} else if ip == netip.IPv6Unspecified() {
		ip = netip.IPv6Loopback()
	}
	for _, never := range append([]string{consul}, r.Never...) {
		if mayBe(ctx, never, ip, port, target != r.Own) {
			return &forbidden{fmt.Sprintf("%s is Consul's address, and no service's",
				netip.AddrPortFrom(ip, port))}
		}
	}
	why := "is a loopback or link-local address, which only its own host can mean"
	if slices.Contains(metadataAddresses, ip) {
		why = "is the address of a cloud's metadata, and no service's"
	} else if localNAT64.Contains(ip) {
		why = "is behind a NAT64 of this network's own, which may lead to any address"
	} else if !ip.IsLoopback() && !ip.IsLinkLocalUnicast() && !ip.IsMulticast() {
		return nil
	}
	if target == r.Own {
		return nil
	}
	for _, n := range r.Networks {
		if n.Contains(ip) || n.Contains(written) {
			return nil
		}
	}
	return &forbidden{fmt.Sprintf("%s %s", netip.AddrPortFrom(ip, port), why)}
}

// metadataAddresses are the addresses at which clouds give a host its credentials, other than
// link-local ones.
var metadataAddresses = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"),      // AWS
	netip.MustParseAddr("fd00:ec2::23"),       // AWS, for the pods of EKS
	netip.MustParseAddr("fd20:ce::254"),       // Google
	netip.MustParseAddr("fd00:c1::a9fe:a9fe"), // Oracle
	netip.MustParseAddr("192.0.0.192"),        // Oracle
	netip.MustParseAddr("100.100.100.200"),    // Alibaba
	netip.MustParseAddr("fd00:100::100:200"),  // Alibaba
	netip.MustParseAddr("fd00:a9fe:a9fe::1"),  // Akamai
	netip.MustParseAddr("fd00:42::42"),        // Scaleway
	netip.MustParseAddr("168.63.129.16"),      // Azure
}

// embeddedIPv4 is the IPv4 address that an IPv6 one leads to: by NAT64 (RFC 6052), 6to4 (RFC 3056),
// as "IPv4-compatible" (RFC 4291, 2.5.5.1) or "IPv4-translated" (RFC 7915, by SIIT). Any other
// address is itself.
func embeddedIPv4(ip netip.Addr) netip.Addr {
	b := ip.As16()
	switch {
	case !ip.Is6() || ip.IsUnspecified() || ip.IsLoopback():
		return ip
	case nat64.Contains(ip), compatible.Contains(ip), translated.Contains(ip):
		return netip.AddrFrom4([4]byte(b[12:16]))
	case sixToFour.Contains(ip):
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return ip
}

var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	compatible = netip.MustParsePrefix("::/96")
	translated = netip.MustParsePrefix("::ffff:0:0:0/96")
	sixToFour  = netip.MustParsePrefix("2002::/16")
	// where in an address of it the IPv4 one stands is each network's own choice (RFC 8215)
	localNAT64 = netip.MustParsePrefix("64:ff9b:1::/48")
)

// mayBe tells whether an address, as by embeddedIPv4, may be that of name, a host:port; of name's
// whole host, if that is this one and wide is set: an agent may listen on all of its addresses. One
// that cannot be found out is taken for it.
func mayBe(ctx context.Context, name string, ip netip.Addr, port uint16, wide bool) bool {
	host, p, err := net.SplitHostPort(name)
	if n, bad := strconv.ParseUint(p, 10, 16); err != nil || bad != nil || uint16(n) != port {
		return false
	}
	if ip.IsLoopback() {
		return true
	}
	known, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host) // an address is itself
	if err != nil {
		return true
	}
	for _, k := range known {
		k = embeddedIPv4(k.Unmap().WithZone(""))
		if k == ip || wide && isThisHost(k) && isThisHost(ip) {
			return true
		}
	}
	return false
}

// isThisHost tells whether an address, as by embeddedIPv4, is one of this host's.
func isThisHost(ip netip.Addr) bool {
	if ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	all, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(all, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		if !ok {
			return false
		}
		at, ok := netip.AddrFromSlice(n.IP)
		return ok && embeddedIPv4(at.Unmap()) == ip
	})
}
