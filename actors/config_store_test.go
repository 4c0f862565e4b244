package actors_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
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
