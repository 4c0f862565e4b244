package store_test

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/keys"
	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/hashicorp/consul/api"
)

func TestWhatIsLargeIsReadAndWrittenOverAThinLineAndAStalledOneIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, full store.Store) {
		var names []string
		var reads []store.Op
		for i := range 10 {
			key := fmt.Sprint("data/k", i)
			must(t, keys.Put(t.Context(), full, key, bytes.Repeat([]byte{byte(i)}, 380<<10), 0))
			names, reads = append(names, key), append(reads, store.Get(key))
		}
		line := &transport.Thin{To: consul.RoundTripper(), Pace: 140 << 10}
		client, err := store.NewClient(&api.Config{Address: "consul.test",
			HttpClient: &http.Client{Transport: line}})
		must(t, err)
		s, err := store.Open(store.Config{Client: client})
		must(t, err)
		took := func(what string, least, most time.Duration, f func() error) {
			begin := time.Now()
			err := f()
			if d := time.Since(begin); err != nil || d < least || d > most {
				t.Errorf("%s: %v after %v", what, err, d)
			}
		}
		list := func() error {
			got, _, err := s.List(t.Context(), "data/", store.Consistent)
			if err == nil && len(got) != len(names) {
				err = fmt.Errorf("%d of %d keys", len(got), len(names))
			}
			return err
		}
		took("a list of 5 MB", 30*time.Second, time.Minute, list)
		took("a transaction that reads 5 MB", 30*time.Second, time.Minute, func() error {
			_, err := s.Txn(t.Context(), reads...)
			return err
		})
		took("a watch of 5 MB", 30*time.Second, time.Minute, func() error {
			_, err := store.WatchPrefix(s, "data/").Next(t.Context())
			return err
		})
		took("a write of 500 KB", 3500*time.Millisecond, 5*time.Second, func() error {
			return keys.Put(t.Context(), s, names[0], bytes.Repeat([]byte{'x'}, 380<<10), 0)
		})

		line.Stalls = 1 << 20
		for what, f := range map[string]func() error{
			"a transaction": func() error {
				_, err := s.Txn(t.Context(), reads...)
				return err
			},
			"a list": list,
		} {
			begin := time.Now()
			err := f()
			wantKind(t, err, store.ErrUnreachable, true)
			least := (1 << 20) * time.Second / time.Duration(line.Pace)
			if d := time.Since(begin); d < least || d > least+31*time.Second ||
				what == "a transaction" && d > least+4*time.Second {
				t.Errorf("%s that stalled was given up after %v", what, d)
			}
		}
		line.Stalls, line.Pace = 0, 1<<10 // slower than anything that is waited for
		begin := time.Now()
		if _, err := s.Txn(t.Context(), reads...); err == nil ||
			time.Since(begin) > 40*time.Second {
			t.Errorf("a line of 1 KB/s: %v after %v", err, time.Since(begin))
		}
	})
}
