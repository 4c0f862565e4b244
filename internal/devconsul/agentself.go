package devconsul

import (
	"net/http"
	"strconv"
)

// What gossip says of a member.
const (
	gossipAlive, gossipLeft, gossipFailed = 1, 3, 4
)

// member is the agent as gossip would show it.
func (a *Agent) member() map[string]any {
	tags := map[string]string{"build": version + ":", "dc": a.s.cfg.Datacenter, "id": a.id,
		"role": "node", "segment": "", "vsn": "2", "vsn_max": "3", "vsn_min": "2"}
	if a.isServer() {
		tags["role"], tags["port"] = "consul", strconv.Itoa(serverPort)
		tags["acls"], tags["raft_vsn"], tags["wan_join_port"] = "0", "3", "8302"
	}
	return map[string]any{
		"Name": a.name, "Addr": a.address, "Port": 8301, "Tags": tags, "Status": a.gossip,
		"ProtocolMin": 1, "ProtocolMax": 5, "ProtocolCur": 2,
		"DelegateMin": 2, "DelegateMax": 5, "DelegateCur": 4,
	}
}

func (s *Server) agentMembers(_ http.ResponseWriter, r *http.Request) (any, error) {
	if err := checkFilter(r.URL.Query()); err != nil {
		return nil, err
	}
	all := []any{}
	for _, a := range s.agents {
		all = append(all, a.member())
	}
	return all, nil
}

// agentSelf tells what clients look for: the node, the datacenter and the version.
func (s *Server) agentSelf(_ http.ResponseWriter, r *http.Request) (any, error) {
	a := s.agentOf(r)
	return map[string]any{
		"Config": map[string]any{
			"Datacenter": s.cfg.Datacenter, "PrimaryDatacenter": s.cfg.Datacenter,
			"NodeName": a.name, "NodeID": a.id, "Server": a.isServer(), "Version": version,
		},
		"Member": a.member(),
		"Meta":   a.meta(),
	}, nil
}
