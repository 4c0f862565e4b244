//go:build unix

package realconsul

import (
	"errors"
	"net"
	"slices"
	"strconv"

	"github.com/coordd/coordd/test/relay"
)

// With links, server n listens for RPC at 127.0.0.1n, which is also where its own calls come from,
// and tells the others that it is at 127.0.0.2n: there its relay listens, which so knows both ends
// of a connection. Gossip goes to 127.0.0.2n too, and to the server itself.

// bound is the address of a server's RPC port, and the source of its calls.
func (s *Server) bound() string {
	if s.linked == 0 {
		return "127.0.0.1"
	}
	return "127.0.0.1" + strconv.Itoa(s.linked)
}

// advertised is the address that the other servers know.
func (s *Server) advertised() string {
	if s.linked == 0 {
		return "127.0.0.1"
	}
	return "127.0.0.2" + strconv.Itoa(s.linked)
}

func (c *Cluster) link() error {
	for i, s := range c.Servers {
		s.linked = i + 1
		port := strconv.Itoa(s.ports.Base + portRPC)
		l, err := relay.Listen(net.JoinHostPort(s.advertised(), port), net.JoinHostPort(s.bound(),
			port))
		if err != nil {
			return err
		}
		c.links = append(c.links, l)
	}
	return nil
}

// Part cuts a cluster with Options.Links into groups: a server reaches those of its own group and
// no others. Whoever is in none is alone. What is under way stands still and arrives after Mend, as
// far as the servers have not given it up. Clients reach each server still, and so does gossip: no
// server takes another one for dead.
func (c *Cluster) Part(groups ...[]*Server) error {
	if len(c.links) == 0 {
		err := errors.New("realconsul: Part is for a cluster with Options.Links")
		c.t.Error(err)
		return err
	}
	for i, s := range c.Servers {
		var away []string
		for _, other := range c.Servers {
			together := slices.ContainsFunc(groups, func(g []*Server) bool {
				return slices.Contains(g, s) && slices.Contains(g, other)
			})
			if other != s && !together {
				away = append(away, other.bound())
			}
		}
		c.links[i].Hold(away...)
	}
	return nil
}

// Mend undoes Part.
func (c *Cluster) Mend() error { return c.Part(c.Servers) }
