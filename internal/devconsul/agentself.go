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

func (s *Server) agentVersion(http.ResponseWriter, *http.Request) (any, error) {
	return map[string]string{
		"SHA": "", "BuildDate": "1970-01-01T00:00:01Z", "HumanVersion": version, "FIPS": "",
	}, nil
}

// agentSelf tells what clients look for: the node, the version, the limits and whether there is a
// leader.
func (s *Server) agentSelf(_ http.ResponseWriter, r *http.Request) (any, error) {
	a := s.agentOf(r)
	led := !s.leadership.Load().isLost()
	raftState, leaderAddr := "Follower", ""
	if led {
		raftState, leaderAddr = "Leader", serverAddr
	}
	idx := strconv.FormatUint(s.raftIndex, 10)
	return map[string]any{
		"Config": map[string]any{
			"Datacenter": s.cfg.Datacenter, "PrimaryDatacenter": s.cfg.Datacenter,
			"NodeName": a.name,
			"NodeID":   a.id, "Revision": "", "Server": a.isServer(), "Version": version,
			"BuildDate": "1970-01-01T00:00:01Z", "BindAddr": "127.0.0.1",
		},
		"DebugConfig": map[string]any{
			"Datacenter": s.cfg.Datacenter, "NodeName": a.name, "DevMode": true,
			"ACLsEnabled":    false,
			"KVMaxValueSize": maxValueSize, "TxnMaxReqLen": maxValueSize,
			"SessionTTLMin":    s.cfg.SessionTTLMin.String(),
			"DefaultQueryTime": defaultWait.String(),
			"MaxQueryTime":     maxWait.String(),
		},
		"Coord":  nil,
		"Member": a.member(),
		"Stats": map[string]any{
			"build": map[string]string{"version": version},
			"consul": map[string]string{
				"leader": strconv.FormatBool(led), "leader_addr": leaderAddr,
				"server": strconv.FormatBool(a.isServer()),
			},
			"raft": map[string]string{"applied_index": idx, "last_log_index": idx,
				"state": raftState},
		},
		"Meta": a.meta(),
	}, nil
}
