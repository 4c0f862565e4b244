package actors_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/coordd/coordd/messages"
)

func TestACleanStopOfAMemberLeavesItsConfigurationAndNoMarker(t *testing.T) {
	dir := t.TempDir()
	run(t, func(c *cluster) {
		for _, log := range []string{"", dir, dir} {
			m := c.start("n1", func(cfg *actors.Config) {
				cfg.Backend, cfg.ConfigLog = actors.BackendConsul, log
			})
			kv := m.c.ConfigStore()
			if _, err := kv.Put(c.t.Context(), "k", []byte("1"+log)); err != nil {
				t.Fatal(err)
			}
			m.net.Cut(errors.New("connection reset by peer"))
			time.Sleep(time.Second)
			m.net.Cut(nil)
			if _, err := kv.Put(c.t.Context(), "k", []byte("2"+log)); err != nil {
				t.Fatal(err)
			}
			c.stop("n1")
			entries, _, err := c.store.List(c.t.Context(), c.store.Keys().Root(), 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if strings.HasPrefix(e.Key, c.store.Keys().ConfigMarker("")) {
					t.Errorf("left behind, with the log %q: %s = %s", log, e.Key, e.Value)
				}
			}
		}
	})
}

// Commands that write the configuration run on the hosts of members, and some are killed.
func TestAMemberCollectsTheMarkersOfCommandsThatWereKilledOnItsHost(t *testing.T) {
	run(t, func(c *cluster) {
		lives := protocol.Self("")
		dead := lives
		dead.StartTime++ // its number is another process's by now
		elsewhere := lives
		elsewhere.Host = "elsewhere"
		left := map[string]bool{}
		for by, stays := range map[protocol.Process]bool{dead: false, lives: true,
			elsewhere: true} {
			key := c.store.Keys().ConfigMarker(configstore.CommandOwner())
			left[key] = stays
			if _, err := c.store.Txn(c.t.Context(), store.Create(key, protocol.Marker{Claim: 1,
				By: by, Since: time.Now().Unix()}.Encode())); err != nil {
				t.Fatal(err)
			}
		}
		m := c.start("n1", func(cfg *actors.Config) { cfg.Backend = actors.BackendConsul })
		if _, err := m.c.ConfigStore().Put(c.t.Context(), "k", []byte("1")); err != nil {
			t.Fatal(err)
		}
		for key, stays := range left {
			if _, found, _, err := c.store.Get(c.t.Context(), key, store.Consistent); err != nil ||
				found != stays {
				t.Errorf("%s is there: %v, want %v (%v)", key, found, stays, err)
			}
		}
	})
}

// It was cut off before it had claimed the marker, and hears of nothing else at first when that is
// over.
func TestAMemberWhoseSessionIsOverTakesNoMarkerFromItsSuccessor(t *testing.T) {
	run(t, func(c *cluster) {
		backed := func(cfg *actors.Config) { cfg.Backend = actors.BackendConsul }
		put := func(m *member, value string) {
			c.t.Helper()
			ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Minute)
			defer cancel()
			if _, err := m.c.ConfigStore().Put(ctx, "k", []byte(value)); err != nil {
				c.t.Errorf("value %s: %v", value, err)
			}
		}
		consul, lost := c.consul.RoundTripper(), transport.Fail(transport.ErrReset)
		c.way = transport.When(consul, transport.TxnWith("config_log/"), lost)
		first := c.start("n1", backed)
		c.await("the first is registered", time.Minute, func() bool {
			return first.c.Membership().Get().Phase == messages.Registered
		})
		first.net.Cut(transport.ErrReset)
		c.way = nil
		next := c.start("n1", backed)
		put(next, "1")
		time.Sleep(10 * time.Second) // the TTL: what the first one holds is over for it as well
		first.net.Via(transport.When(lost, func(r *http.Request) bool {
			return strings.Contains(r.URL.Path+transport.Txn(r), "/config_")
		}, consul.RoundTrip))
		first.net.Cut(nil)
		time.Sleep(time.Minute)
		put(next, "2")
		first.cancel()
		<-first.done
		put(next, "3")
	})
}
