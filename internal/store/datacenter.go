package store

import (
	"context"
	"math/rand/v2"
	"strings"

	"github.com/hashicorp/consul/api"
)

// missingNode tells whether a session was refused because its node is not in the catalog: the
// agent's own, by default, which another datacenter does not know.
func missingNode(err error) bool {
	return err != nil && strings.Contains(err.Error(), "Missing node registration")
}

// nodeElsewhere is a node for sessions in the datacenter that the client asks for, where that is
// not the agent's own: one of its servers. Empty: it is the agent's own, or has no server that
// passes.
func (s *consul) nodeElsewhere(ctx context.Context) (node string, err error) {
	c := call{op: "find node", timeout: s.callTimeout,
		need: "service:read on consul, node:read there, and agent:read on the agent"}
	err = s.do(ctx, c, func(ctx context.Context) error {
		options := (&api.QueryOptions{}).WithContext(ctx)
		servers, _, err := s.client.Health().Service("consul", "", true, options)
		if err != nil || len(servers) == 0 {
			return err
		}
		var self struct{ Config struct{ Datacenter string } }
		if _, err := s.client.Raw().Query("/v1/agent/self", &self, options); err != nil {
			return err
		}
		one := servers[rand.IntN(len(servers))].Node
		if own := self.Config.Datacenter; own != "" && one != nil && one.Datacenter != own {
			node = one.Node
		}
		return nil
	})
	return node, err
}
