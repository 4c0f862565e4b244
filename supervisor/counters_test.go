package supervisor_test

import (
	"encoding/json"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/supervisor"
)

func ouch() error { panic("ouch") }

func TestCountersCountAndNeverFall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		letGo := make(chan struct{})
		a, b := newActor(&j, "a"), newActor(&j, "b")
		hung := hanging("hung", letGo)
		r := start(t, supervisor.Tree{Children: []supervisor.Child{
			{
				Name:    "tree",
				Backoff: every(time.Second),
				Tree: &supervisor.Tree{
					MaxRestarts: 2,
					Children:    []supervisor.Child{a.child(), b.child(), hung},
				},
			},
		}})
		check := func(when string, total supervisor.Counts, children map[string]supervisor.Counts) {
			t.Helper()
			got := r.Counters()
			if got.Total != total || !maps.Equal(got.Children, children) {
				t.Errorf("%s: %+v", when, got)
			}
			if _, err := json.Marshal(got); err != nil {
				t.Error(err)
			}
		}
		check("at first", supervisor.Counts{}, map[string]supervisor.Counts{})
		for _, way := range []func() error{ouch, boom} {
			a.now(way)
			time.Sleep(time.Second)
			synctest.Wait()
		}
		b.now(boom)
		time.Sleep(time.Second)
		synctest.Wait()
		check(
			"after three restarts",
			supervisor.Counts{Restarts: 3, Panics: 1},
			map[string]supervisor.Counts{
				"root/tree/a": {Restarts: 2, Panics: 1},
				"root/tree/b": {Restarts: 1},
			},
		)
		a.now(ouch) // the tree gives up, and leaves one behind
		time.Sleep(10 * time.Second)
		synctest.Wait()
		now := map[string]supervisor.Counts{
			"root/tree/a": {
				Restarts: 2,
				Panics:   2,
			},
			"root/tree/b":    {Restarts: 1},
			"root/tree/hung": {Abandoned: 1},
			"root/tree":      {Restarts: 1, Escalations: 1},
			"root":           {Escalations: 1},
		}
		check(
			"after the tree gave up",
			supervisor.Counts{Restarts: 4, Panics: 2, Escalations: 2, Abandoned: 1},
			now,
		)
		close(letGo)
		r.stop()
		<-r.done
		synctest.Wait()
		check(
			"at the end",
			supervisor.Counts{Restarts: 4, Panics: 2, Escalations: 2, Abandoned: 1},
			now,
		)
	})
}
