package actors_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// A Consul server that is started anew replays its log, and begins the lock-delays in it anew. It
// refuses each lock of a key then that an earlier member has left, also by whoever has it by now.
func TestALockDelayThatConsulReplaysHoldsUpNobodyWhoHasTheKey(t *testing.T) {
	run(t, func(c *cluster) {
		c.checkTTL = actors.NoCheck // its session outlives what follows
		m := c.start("n1", stopsIn(5*time.Second))
		c.addWork("item")
		c.await("a leader", 10*time.Second, func() bool { return c.leader() == "n1" })
		c.await("its work", 10*time.Second, c.balanced(1))

		var away atomic.Bool
		delayed := transport.When(c.consul.RoundTripper(), transport.TxnWith(`"Verb":"lock"`),
			transport.Always(http.StatusConflict, `{"Results":null,"Errors":[{"OpIndex":2,"What":`+
				`"failed to lock key \"service/demo/leader\" due to lock delay"}]}`))
		m.net.Via(transport.When(delayed, func(*http.Request) bool { return away.Load() },
			transport.Fail(transport.ErrReset)))

		before := m.c.Leadership().Get()
		c.put("leader", "somebody else")
		time.Sleep(2 * time.Second)
		after := m.c.Leadership().Get()
		if after.Term != before.Term || after.Epoch <= before.Epoch {
			t.Errorf("leadership before %+v, after %+v: want a new epoch of the same term", before,
				after)
		}

		away.Store(true)
		time.Sleep(11 * time.Second)
		if now := m.c.Leadership().Get(); now.Role != facts.Uncertain {
			t.Fatalf("it is %+v: this tests nothing", now)
		}
		away.Store(false)
		c.await("the leader again", 8*time.Second, func() bool {
			now := m.c.Leadership().Get()
			return now.Role == facts.Leading && now.Term > after.Term
		})
		c.await("its work again", 10*time.Second, c.balanced(1))

		m.cancel()
		time.Sleep(time.Second)
		e, _, _, err := c.store.Get(c.t.Context(), c.store.Keys().Member("n1"), store.Consistent)
		if err != nil || !strings.Contains(string(e.Value), protocol.StatusLeaving) {
			t.Errorf("a second after the stop its record says %s, error %v", e.Value, err)
		}
		<-m.done
	})
}
