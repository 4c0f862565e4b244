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
	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/relay"
	"github.com/hashicorp/consul/api"
)

// patience is how long a lever may be tried at a Consul that is being broken itself: each of its
// faults is shorter.
const patience = time.Minute

func (w *world) kill(f fault) {
	for _, i := range f.victims {
		w.member[i].now.end(syscall.SIGKILL)
	}
	for _, i := range f.victims {
		<-w.member[i].now.Exited
	}
	time.Sleep(f.lasts)
	for n, i := range f.victims {
		w.start(w.member[i], f.births[n])
	}
}

// killBoth leaves nobody who could hand anything over, as a machine does that is lost.
func (w *world) killBoth(f fault) {
	var pids []int
	for _, i := range f.victims {
		p := w.member[i].now
		p.wanted.Store(true)
		pids = append(pids, append(p.guards(), p.PID)...)
	}
	// stopped first, so that none sees another die
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for _, pid := range pids {
			_ = syscall.Kill(pid, sig)
		}
	}
	w.kill(f)
}

// killGuard takes the parent of all work away: its coordd has to see to it that nothing of the work
// is left, and to start another one.
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
		took, why := testkit.Look(patience, func() string {
			if now := p.guards(); len(now) != 1 || slices.Contains(old, now[0]) {
				return fmt.Sprintf("%s has the guards %v", p.proc, now)
			}
			return ""
		})
		if why != "" {
			w.t.Errorf("%s, %v after %v was killed", why, took+f.lasts, old)
		}
	}
}

// halt stops coordd alone. Its guard has to end the children with the lease, which began before the
// halt.
func (w *world) halt(f fault) {
	p := w.member[f.victims[0]].now
	_ = syscall.Kill(p.PID, syscall.SIGSTOP)
	begin := time.Now()
	had := len(w.ledger.children(p.proc))
	time.Sleep(ttl)
	if left := w.ledger.children(p.proc); len(left) > 0 {
		w.t.Errorf("%s was stopped by SIGSTOP %v ago, longer than its lease, and %d of its %d "+
			"children run",
			p.proc, time.Since(begin), len(left), had)
	}
	time.Sleep(f.lasts - time.Since(begin))
	p.stood = append(p.stood, [2]time.Time{begin, time.Now()})
	_ = syscall.Kill(p.PID, syscall.SIGCONT)
}

// sleep is a host that is suspended: nothing of the member runs, so nothing of it can end in time.
// Only the token tells whoever is written to that the late one is late.
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
	for n, i := range f.victims {
		m := w.member[i]
		m.now.end(syscall.SIGTERM)
		select {
		case <-m.now.Exited:
		case <-time.After(patience):
			w.t.Errorf("%s did not stop within %v of SIGTERM", m.now.proc, patience)
			m.now.end(syscall.SIGKILL)
			<-m.now.Exited
		}
		w.start(m, f.births[n])
		time.Sleep(time.Second)
	}
}

func (w *world) destroy(f fault) {
	w.destroySessions(f.victims)
	time.Sleep(f.lasts)
}

// cutAndDestroy ends the sessions of members that cannot hear of it and go on until their leases
// are over: only the grace keeps others from their items for so long.
func (w *world) cutAndDestroy(f fault) {
	w.relays(f.victims, relay.Freeze)
	w.destroySessions(f.victims)
	time.Sleep(f.lasts)
	w.relays(f.victims, relay.Pass)
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

// rob notes that a member's session may be ended from now on: it may not hear of it before its
// lease is over, and lead until then beside its successor. What it writes as a leader is refused.
func (w *world) rob(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.runs {
		if strings.HasPrefix(p.proc, id+"#") && p.Running() {
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
