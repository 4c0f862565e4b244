//go:build linux

package chaos_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coordd/coordd/internal/history"
	"github.com/hashicorp/consul/api"
)

// The two lanes of a storm. Faults of one lane come one after the other, so that no two meet on one process.
const (
	processes = iota // the members' processes and sessions
	cluster          // Consul, the way to it, and what it allows
	lanes
)

// kind is a way to break something, and to mend it again.
type kind struct {
	name string
	lane int
	// It lasts from least to most; what has a length of its own says how long that is at the most.
	least, most time.Duration
	of, atMost  int  // its victims are drawn among so many, and so many at most
	acl         bool // only where there are tokens
	do          func(w *world, f fault)
}

const second = time.Second

// takenOver is when somebody else has a vanished member's items, if nothing else is wrong and nobody hands them over: the
// guard of a killed coordd does, within a second or two.
const takenOver = 2*ttl + lockDelay + grace + merge + workerSoak + 2*second

// kinds are all that a storm may hold. None of them is known to be harmless.
var kinds = []kind{
	{name: "kill -9 and start again", lane: processes, least: second / 4, most: 14 * second, of: members, atMost: 2, do: (*world).kill},
	{name: "SIGSTOP of coordd beyond the TTL", lane: processes, least: ttl + 2*second, most: ttl + 6*second, of: members, atMost: 1, do: (*world).halt},
	{name: "suspend coordd, guard and children", lane: processes, least: 4 * second, most: ttl + 6*second, of: members, atMost: 1, do: (*world).sleep},
	{name: "kill -9 of the guard alone", lane: processes, least: second, most: 3 * second, of: members, atMost: 2, do: (*world).killGuard},
	{name: "kill -9 of coordd and guard, and start again", lane: processes, least: second / 4, most: 14 * second, of: members, atMost: 2, do: (*world).killBoth},
	{name: "kill -9 of coordd and guard until taken over", lane: processes, least: takenOver, most: takenOver + 4*second, of: members, atMost: 1, do: (*world).killBoth},
	{name: "suspend all until taken over", lane: processes, least: takenOver, most: takenOver + 4*second, of: members, atMost: 1, do: (*world).sleep},
	{name: "rolling restart of the members", lane: processes, least: 8 * second, most: 8 * second, of: members, atMost: members, do: (*world).restart},
	{name: "operator destroys sessions", lane: processes, least: second, most: 2 * second, of: members, atMost: members, do: (*world).destroy},
	{name: "operator changes the workload", lane: processes, least: second, most: 2 * second, of: members, atMost: members, do: (*world).change},

	{name: "connections refused", lane: cluster, least: 2 * second, most: 14 * second, of: members, atMost: 3, do: cut(refuse)},
	{name: "connections frozen", lane: cluster, least: 2 * second, most: 14 * second, of: members, atMost: 3, do: cut(freeze)},
	{name: "requests do not arrive", lane: cluster, least: 2 * second, most: 14 * second, of: members, atMost: 3, do: cut(deaf)},
	{name: "answers do not arrive", lane: cluster, least: 2 * second, most: 14 * second, of: members, atMost: 3, do: cut(mute)},
	{name: "cut off and session destroyed", lane: cluster, least: ttl + 2*second, most: ttl + 6*second, of: members, atMost: 2, do: (*world).cutAndDestroy},
	{name: "cut off until taken over", lane: cluster, least: takenOver, most: takenOver + 4*second, of: members, atMost: 1, do: cut(freeze)},
	{name: "kill -9 of Consul servers", lane: cluster, least: second, most: 10 * second, of: 3, atMost: 2, do: (*world).killServers},
	{name: "SIGSTOP of Consul servers", lane: cluster, least: 2 * second, most: ttl + 4*second, of: 3, atMost: 2, do: (*world).haltServers},
	{name: "rolling restart of the Consul servers", lane: cluster, least: 12 * second, most: 12 * second, of: 3, atMost: 3, do: (*world).restartServers},
	{name: "tokens revoked", lane: cluster, least: 3 * second, most: ttl + 4*second, of: members, atMost: 3, acl: true, do: (*world).revoke},
}

// patience is how long a lever may be tried at a Consul that is being broken itself: each of its faults is shorter.
const patience = time.Minute

func (w *world) kill(f fault) {
	for _, i := range f.victims {
		w.member[i].now.end(syscall.SIGKILL)
	}
	for _, i := range f.victims {
		<-w.member[i].now.exited
	}
	time.Sleep(f.lasts)
	for _, i := range f.victims {
		w.start(w.member[i])
	}
}

// killBoth leaves nobody who could hand anything over, as a machine does that is lost.
func (w *world) killBoth(f fault) {
	var pids []int
	for _, i := range f.victims {
		p := w.member[i].now
		p.wanted.Store(true)
		pids = append(pids, append(p.guards(), p.pid)...)
	}
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} { // stopped first, so that none sees another die
		for _, pid := range pids {
			_ = syscall.Kill(pid, sig)
		}
	}
	w.kill(f)
}

// killGuard takes the parent of all work away: its coordd has to see to it that nothing of the work is left, and to start
// another one.
func (w *world) killGuard(f fault) {
	killed := map[int][]int{}
	for _, i := range f.victims {
		killed[i] = w.member[i].now.guards()
		for _, pid := range killed[i] {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	time.Sleep(f.lasts)
	for i, old := range killed {
		p := w.member[i].now
		for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
			now := p.guards()
			if len(now) == 1 && !slices.Contains(old, now[0]) {
				break
			}
			if time.Since(begin) > patience {
				w.t.Errorf("%s has the guards %v, %v after %v was killed", p.proc, now, time.Since(begin)+f.lasts, old)
				break
			}
		}
	}
}

// halt stops coordd alone. Its guard has to end the children with the lease, which began before the halt.
func (w *world) halt(f fault) {
	p := w.member[f.victims[0]].now
	_ = syscall.Kill(p.pid, syscall.SIGSTOP)
	begin := time.Now()
	had := len(w.ledger.children(p.proc))
	time.Sleep(ttl)
	if left := w.ledger.children(p.proc); len(left) > 0 {
		w.t.Errorf("%s was stopped by SIGSTOP %v ago, longer than its lease, and %d of its %d children run", p.proc, time.Since(begin), len(left), had)
	}
	time.Sleep(f.lasts - time.Since(begin))
	p.stood = append(p.stood, [2]time.Time{begin, time.Now()})
	_ = syscall.Kill(p.pid, syscall.SIGCONT)
}

// sleep is a host that is suspended: nothing of the member runs, so nothing of it can end in time. Only
// the token tells whoever is written to that the late one is late.
func (w *world) sleep(f fault) {
	p := w.member[f.victims[0]].now
	s, err := p.suspend()
	if err != nil {
		w.t.Errorf("suspending %s: %v", p.proc, err)
		return
	}
	begin := time.Now()
	w.ledger.add(history.Freeze, p.proc)
	time.Sleep(f.lasts)
	p.stood = append(p.stood, [2]time.Time{begin, time.Now()})
	w.ledger.add(history.Thaw, p.proc)
	if err := s.thaw(); err != nil {
		w.t.Errorf("waking %s: %v", p.proc, err)
	}
}

func (w *world) restart(f fault) {
	for _, i := range f.victims {
		m := w.member[i]
		m.now.end(syscall.SIGTERM)
		select {
		case <-m.now.exited:
		case <-time.After(30 * time.Second):
			w.t.Errorf("%s did not stop within 30 s of SIGTERM", m.now.proc)
			m.now.end(syscall.SIGKILL)
			<-m.now.exited
		}
		w.start(m)
		time.Sleep(time.Second)
	}
}

func (w *world) destroy(f fault) {
	w.destroySessions(f.victims)
	time.Sleep(f.lasts)
}

// cutAndDestroy ends the sessions of members that cannot hear of it and go on until their leases are over: only the grace
// keeps others from their items for so long.
func (w *world) cutAndDestroy(f fault) {
	w.relays(f.victims, freeze)
	w.destroySessions(f.victims)
	time.Sleep(f.lasts)
	w.relays(f.victims, pass)
}

func (w *world) destroySessions(victims []int) {
	call, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	w.insist(call, "destroying sessions", func(c *api.Client, o *api.WriteOptions) error {
		all, _, err := c.Session().List((&api.QueryOptions{}).WithContext(o.Context()))
		if err != nil {
			return err
		}
		for _, i := range victims {
			w.rob(w.member[i].id)
			for _, s := range all {
				if s.Name == service+"/"+w.member[i].id {
					if _, err := c.Session().Destroy(s.ID, o); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
}

// rob notes that a member's session is about to be destroyed: it may not hear of it before its lease is over, and lead
// until then beside its successor. What it writes as a leader is refused.
func (w *world) rob(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.runs {
		if strings.HasPrefix(p.proc, id+"#") && p.running() {
			p.robbed = append(p.robbed, time.Now())
		}
	}
}

func (w *world) change(f fault) {
	call, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for range f.victims {
		w.extra++
		w.addItem(call, fmt.Sprintf("late-%03d", w.extra))
		if w.extra <= share*members/2 {
			w.removeItem(call, fmt.Sprintf("item-%03d", w.extra))
		}
	}
	time.Sleep(f.lasts)
}

func cut(mode string) func(*world, fault) {
	return func(w *world, f fault) {
		w.relays(f.victims, mode)
		time.Sleep(f.lasts)
		w.relays(f.victims, pass)
	}
}

func (w *world) relays(victims []int, mode string) {
	for _, i := range victims {
		if err := w.member[i].relay.set(mode); err != nil {
			w.t.Errorf("the relay of %s: %v", w.member[i].id, err)
		}
	}
}

func (w *world) killServers(f fault) {
	for _, i := range f.victims {
		_ = w.consul.Servers[i].Kill() // a lever that fails tells the test itself
	}
	time.Sleep(f.lasts)
	for _, i := range f.victims {
		_ = w.consul.Servers[i].Start()
	}
}

func (w *world) haltServers(f fault) {
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
		s := w.consul.Servers[i]
		if s.Stop() != nil || s.Start() != nil {
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
			if now, _, err := c.ACL().TokenRead(token.AccessorID, (&api.QueryOptions{}).WithContext(o.Context())); err == nil && now != nil {
				return nil // an attempt whose answer was lost
			}
			_, _, err := c.ACL().TokenCreate(token, o)
			return err
		})
	}
}

// named is the kind of that name.
func named(name string) kind {
	return kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })]
}
