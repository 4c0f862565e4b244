package routing_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/routing"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/store"
)

// With these ids some items make no key.
func TestAnOddMembersRecordHindersNoLookUp(t *testing.T) {
	odd := []string{"node 2", "node 1", "node%1", "node..1"}
	for _, when := range []string{"before the first question", "later"} {
		synctest.Test(t, func(t *testing.T) {
			var text bytes.Buffer
			log := slog.New(slog.NewTextHandler(&text, nil))
			consul := devconsul.New(devconsul.Config{NoJitter: true})
			defer consul.Close()
			w := populate(t, consul, 1, 1)
			come := func() {
				for _, id := range odd {
					w.write(store.Lock(w.store.Keys().Member(id), []byte("alive"), 0, w.session))
				}
			}
			r, stop := begin(t, consul.RoundTripper(), log)
			defer stop()
			asked := func() {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if loc, err := r.Await(ctx, w.item(0)); err != nil || loc.Member != w.member(0) {
					t.Errorf("%s: %+v, %v", when, loc, err)
				}
				if _, err := r.Await(ctx, "%zz"); !errors.Is(err, routing.ErrUnknownItem) {
					t.Errorf("%s: no item: %v", when, err)
				}
			}
			if when == "later" {
				asked()
			}
			come()
			time.Sleep(time.Minute)
			asked()
			if members, err := r.Members(t.Context()); err != nil || len(members) != 1 {
				t.Errorf("%s: %v, %v", when, members, err)
			}
			one := routing.Config{Service: "demo", Client: w.client}
			if _, err := routing.Locate(t.Context(), one, "%zz"); !errors.Is(err,
				routing.ErrUnknownItem) {
				t.Errorf("%s, without a router: %v", when, err)
			}
			w.write(store.Delete(w.store.Keys().Member(odd[0]))) // another view
			time.Sleep(time.Minute)
			stop()
			synctest.Wait()
			if n := strings.Count(text.String(), "unreadable-key-skipped"); n != len(odd) {
				t.Errorf("%s: they are named %d times: %s", when, n, &text)
			}
		})
	}
}
