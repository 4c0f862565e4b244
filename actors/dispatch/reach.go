package dispatch

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"syscall"
)

// DefaultNetworks are loopback, the private networks and the link-local ones.
func DefaultNetworks() []netip.Prefix {
	var all []netip.Prefix
	for _, n := range []string{
		"127.0.0.0/8", "::1/128",
		"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7",
		"169.254.0.0/16", "fe80::/10",
	} {
		all = append(all, netip.MustParsePrefix(n))
	}
	return all
}

// metadata are the addresses at which clouds give a host its credentials.
var metadata = []netip.Addr{netip.MustParseAddr("169.254.169.254"),
	netip.MustParseAddr("fd00:ec2::254")}

// reach says which addresses are connected to. A member's record names one, and may name what only
// this host reaches: Consul's agent, a cloud's metadata.
type reach struct {
	networks   []netip.Prefix
	consulPort uint16 // 0: none
}

func reachOf(cfg Config) reach {
	r := reach{networks: cfg.Networks}
	if asking, ok := cfg.Locator.(interface{ ConsulAddress() string }); ok {
		_, port, _ := net.SplitHostPort(asking.ConsulAddress())
		n, _ := strconv.ParseUint(port, 10, 16)
		if n != 80 && n != 443 {
			r.consulPort = uint16(n)
		}
	}
	return r
}

// forbidden is the error for an address that is not sent to.
type forbidden struct{ why string }

func (f *forbidden) Error() string { return f.why }

// control is for net.Dialer, which calls it with the address that the name was resolved to.
func (r reach) control(_, resolved string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(resolved)
	if err != nil {
		return &forbidden{fmt.Sprintf("%s is no address", resolved)}
	}
	ip := at.Addr().Unmap().WithZone("")
	switch {
	case r.consulPort != 0 && at.Port() == r.consulPort:
		return &forbidden{fmt.Sprintf("%s has Consul's port", at)}
	case slices.Contains(metadata, ip):
		return &forbidden{fmt.Sprintf("%s is the address of a cloud's metadata", at)}
	case !slices.ContainsFunc(r.networks, func(n netip.Prefix) bool { return n.Contains(ip) }):
		return &forbidden{fmt.Sprintf("%s is in no network that requests may be sent to", at)}
	}
	return nil
}
