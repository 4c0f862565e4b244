package onconsul_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// Whatever has been written, a second copy of it changes nothing, at any later moment: while the
// same ones lead, after they have left, after the election has been deleted, and in the next one of
// its name.
func TestNoWriteTakesEffectTwice(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		consul := s.consul.RoundTripper()
		proxy := &transport.Recorder{To: transport.Func(
			func(r *http.Request) (*http.Response, error) {
				time.Sleep(500 * time.Microsecond)
				return consul.RoundTrip(r)
			})}
		// again sends a copy of each transaction, the oldest first or last.
		again := func(oldestFirst bool) {
			copies := proxy.Copies()
			if !oldestFirst {
				slices.Reverse(copies)
			}
			for _, copy := range copies {
				if transport.Again(consul, copy) == 0 {
					t.Fatal("a copy has not arrived")
				}
			}
		}
		connect := func() *onconsul.Conn {
			c := s.over(proxy)
			return c
		}
		one, two := connect(), connect()
		defer one.Close()
		defer two.Close()
		participant := func(c *onconsul.Conn, name string, hold chan struct{}) *election.Election {
			e, err := election.New(c, election.Config{Election: "demo", Name: name, Logger: s.log,
				Lead: func(ctx context.Context, _ election.Status) error {
					<-ctx.Done()
					if hold != nil {
						<-hold
					}
					return nil
				}})
			must(t, err)
			return e
		}
		nominate := func(c *onconsul.Conn, name string, hold chan struct{}) *election.Election {
			e := participant(c, name, hold)
			if _, err := e.Nominate(t.Context()); err != nil {
				t.Fatal(err)
			}
			return e
		}
		roles := func(step string, want map[*election.Election]election.Role) {
			t.Helper()
			for e, role := range want {
				if s := e.State().Get(); s.Role != role {
					t.Errorf("%s: one is %v, want %v", step, s, role)
				}
			}
		}
		// what is in Consul, without the indexes: a key that was deleted and made again counts as
		// changed by what hangs on it
		dump := func() map[string]string {
			all, _, err := s.consul.Client().KV().List("", nil)
			must(t, err)
			m := map[string]string{}
			for _, p := range all {
				m[p.Key] = fmt.Sprintf("%s (made at %d, changed at %d, %s)", p.Value, p.CreateIndex,
					p.ModifyIndex, p.Session)
			}
			return m
		}
		// settled lets everything come to rest, and then everything that was written before arrive
		// once more.
		settled := func(step string, allowed ...string) {
			t.Helper()
			for _, oldestFirst := range []bool{true, false} {
				time.Sleep(15 * time.Second)
				before := dump()
				again(oldestFirst)
				after := dump()
				for _, key := range slices.Sorted(maps.Keys(after)) {
					if before[key] != after[key] && !slices.Contains(allowed, key) {
						t.Errorf("%s: a second copy made %s = %s of %q", step, key, after[key],
							before[key])
					}
				}
				for key := range before {
					if after[key] == "" {
						t.Errorf("%s: a second copy removed %s", step, key)
					}
				}
			}
			if t.Failed() {
				t.FailNow()
			}
		}

		operator := participant(two, "operator", nil)
		a := nominate(one, "a", nil)
		settled("a leads")
		roles("a leads", map[*election.Election]election.Role{a: election.Leading})
		b := nominate(two, "b", nil)
		settled("b waits")
		must(t, operator.HandOver(t.Context(), "b"))
		settled("handed over")
		roles("handed over", map[*election.Election]election.Role{a: election.Following,
			b: election.Leading})
		a.Resign()
		<-a.Done()
		settled("a has left")
		hold := make(chan struct{})
		c := nominate(one, "c", hold)
		time.Sleep(time.Second)
		d := nominate(one, "d", nil)
		settled("c and d wait")
		b.Resign()
		<-b.Done()
		settled("b has left")
		roles("b has left", map[*election.Election]election.Role{c: election.Leading,
			d: election.Following})
		e := nominate(two, "e", nil)
		settled("e waits")
		// the leader takes its time, and the operator has a second thought
		for _, to := range []string{"e", "d"} {
			must(t, operator.HandOver(t.Context(), to))
		}
		settled("the order was changed")
		close(hold)
		settled("handed over again")
		roles("handed over again", map[*election.Election]election.Role{c: election.Following,
			d: election.Leading, e: election.Following})
		must(t, operator.End(t.Context()))
		settled("ended")
		for _, e := range []*election.Election{c, d, e} {
			<-e.Done()
		}
		must(t, operator.Delete(t.Context()))
		settled("deleted", "election/demo/state/election") // an election without anybody in it
		f := nominate(one, "f", nil)
		settled("the next one")
		roles("the next one", map[*election.Election]election.Role{f: election.Leading})
		list, err := operator.Candidates(t.Context())
		if err != nil || len(list) != 1 {
			t.Errorf("candidates: %v, %v; want f alone", list, err)
		}
		f.Resign()
		<-f.Done()
		must(t, operator.End(t.Context()))
		must(t, operator.Delete(t.Context()))
		g := nominate(one, "g", nil)
		settled("the one after that")
		roles("the one after that", map[*election.Election]election.Role{g: election.Leading})
		g.Resign()
		<-g.Done()
		must(t, operator.Delete(t.Context()))
		// An election that never was is ended.
		must(t, operator.End(t.Context()))
		settled("ended before it began")
		for key := range dump() {
			if !strings.HasPrefix(key, "election/demo/state/") {
				t.Errorf("%s is left", key)
			}
		}
	})
}
