//go:build linux

package chaos_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/coordd/coordd/test/realconsul"
	"github.com/coordd/coordd/test/relay"
	"github.com/hashicorp/consul/api"
)

func cut(mode relay.Mode) func(*world, fault) {
	return func(w *world, f fault) {
		w.relays(f.victims, mode)
		time.Sleep(f.lasts)
		w.relays(f.victims, relay.Pass)
	}
}

func (w *world) relays(victims []int, mode relay.Mode) {
	for _, i := range victims {
		if err := w.member[i].relay.Set(mode); err != nil {
			w.t.Errorf("the relay of %s: %v", w.member[i].id, err)
		}
	}
}

// repeat has a proxy on the way that tries again: half of the copies are late by up to three TTLs,
// and arrive when the storm may be over. So they are not waited for: none of them may do anything.
func (w *world) repeat(f fault) {
	before := w.repeated()
	for _, i := range f.victims {
		w.member[i].relay.Repeat(3 * ttl)
	}
	time.Sleep(f.lasts)
	for _, i := range f.victims {
		w.member[i].relay.Repeat(0)
	}
	w.tell("%d requests were answered a second time meanwhile", w.repeated()-before)
}

func (w *world) repeated() (n int) {
	for _, m := range w.member {
		n += m.relay.Repeated()
	}
	return n
}

// robAt notes that the members whose agent one of these servers is may lose their sessions before
// their leases are over: Consul ends those of a node that gossip takes for lost, or that leaves.
func (w *world) robAt(servers []int) {
	for i, m := range w.member {
		if slices.Contains(servers, i%len(w.consul.Servers)) {
			w.rob(m.id)
		}
	}
}

// part cuts each victim off from all other servers. Members still reach the one that they know.
func (w *world) part(f fault) {
	w.robAt(f.victims)
	var rest []*realconsul.Server
	for i, s := range w.consul.Servers {
		if !slices.Contains(f.victims, i) {
			rest = append(rest, s)
		}
	}
	_ = w.consul.Part(rest) // a lever that fails tells the test itself
	time.Sleep(f.lasts)
	_ = w.consul.Mend()
}

// partLeader leaves Consul's leader alone until it knows, and the others until they have another
// one: both answer meanwhile.
func (w *world) partLeader(f fault) {
	call, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	leader := -1
	w.insist(call, "asking who leads", func(c *api.Client, o *api.WriteOptions) error {
		raft, err := c.Operator().RaftGetConfiguration((&api.QueryOptions{}).WithContext(
			o.Context()))
		if err != nil {
			return err
		}
		for _, s := range raft.Servers {
			if s.Leader {
				leader = slices.IndexFunc(w.consul.Servers, func(o *realconsul.Server) bool {
					return o.Node == s.Node
				})
			}
		}
		if leader < 0 {
			return errors.New("none leads")
		}
		return nil
	})
	if leader >= 0 {
		f.victims = []int{leader}
		w.tell("%v", f)
		w.part(f)
	}
}

func (w *world) killServers(f fault) {
	w.robAt(f.victims)
	for _, i := range f.victims {
		_ = w.consul.Servers[i].Kill() // a lever that fails tells the test itself
	}
	time.Sleep(f.lasts)
	for _, i := range f.victims {
		_ = w.consul.Servers[i].Start()
	}
}

func (w *world) haltServers(f fault) {
	w.robAt(f.victims)
	for _, i := range f.victims {
		_ = w.consul.Servers[i].Freeze()
	}
	time.Sleep(f.lasts)
	for _, i := range f.victims {
		_ = w.consul.Servers[i].Thaw()
	}
}

func (w *world) restartServers(f fault) {
	for _, i := range f.victims {
		w.robAt([]int{i})
		s := w.consul.Servers[i]
		if s.StopAsService() != nil || s.Start() != nil {
			return
		}
		ready, cancel := context.WithTimeout(context.Background(), patience)
		err := s.WaitReady(ready)
		cancel()
		if err != nil {
			w.t.Error(err)
		}
	}
}

// revoke takes the tokens away and gives the same ones back.
func (w *world) revoke(f fault) {
	call, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	for _, i := range f.victims {
		token := w.member[i].token
		w.insist(call, "revoking a token", func(c *api.Client, o *api.WriteOptions) error {
			_, err := c.ACL().TokenDelete(token.AccessorID, o)
			return err
		})
	}
	time.Sleep(f.lasts)
	for _, i := range f.victims {
		token := w.member[i].token
		w.insist(call, "giving a token back", func(c *api.Client, o *api.WriteOptions) error {
			if now, _, err := c.ACL().TokenRead(token.AccessorID,
				(&api.QueryOptions{}).WithContext(o.Context())); err == nil && now != nil {
				return nil // an attempt whose answer was lost
			}
			_, _, err := c.ACL().TokenCreate(token, o)
			return err
		})
	}
}
