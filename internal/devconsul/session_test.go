package devconsul_test

import (
	"context"
	"testing"
	"time"
)

const noChecks = `{"Checks":[],"TTL":"10s","LockDelay":"1s"}`

func TestSessionEndsAtTwiceItsTTLAndNotBefore(t *testing.T) {
	bubble(t, func(w world) {
		s := w.session(noChecks)
		if !w.acquire("lock", s) {
			t.Fatal("not acquired")
		}
		time.Sleep(20*time.Second - time.Nanosecond)
		if !w.alive(s) || w.key("lock").Session != s {
			t.Fatal("gone before twice the TTL")
		}
		time.Sleep(time.Millisecond)
		if w.alive(s) {
			t.Error("still there after twice the TTL")
		}
		if p := w.key("lock"); p == nil || p.Session != "" {
			t.Errorf("its key: %+v", p)
		}
		w.want("PUT /v1/session/renew/"+s, 404, "Session id '"+s+"' not found")
	})
}

func TestRenewingGivesTheFullTimeAnew(t *testing.T) {
	bubble(t, func(w world) {
		s := w.session(noChecks)
		for range 10 {
			time.Sleep(19 * time.Second)
			if a := w.call("PUT /v1/session/renew/" + s); a.code != 200 {
				t.Fatal(a)
			}
		}
		before := w.s.Dump().Index
		time.Sleep(19 * time.Second)
		w.call("PUT /v1/session/renew/" + s)
		if after := w.s.Dump().Index; after != before {
			t.Errorf("renewing wrote to the log: index %d to %d", before, after)
		}
		time.Sleep(20*time.Second - time.Nanosecond)
		if !w.alive(s) {
			t.Error("gone before twice the TTL after the last renewal")
		}
	})
}

func TestLockDelayFollowsInvalidationAndDestroy(t *testing.T) {
	for name, end := range map[string]func(w world, s string){
		"expiry":  func(world, string) { time.Sleep(20 * time.Second) },
		"destroy": func(w world, s string) { w.want("PUT /v1/session/destroy/"+s, 200, "true") },
	} {
		for _, behavior := range []string{"release", "delete"} {
			bubble(t, func(w world) {
				s := w.session(`{"Checks":[],"TTL":"10s","LockDelay":"5s","Behavior":"` + behavior +
					`"}`)
				other := w.session(`{"Checks":[]}`)
				w.acquire("lock", s)
				end(w, s)
				// The timer that ended the session runs at this very instant, too.
				for w.alive(s) {
					time.Sleep(time.Nanosecond)
				}
				if p := w.key("lock"); (p == nil) != (behavior == "delete") {
					t.Errorf("%s, %s: the key is %+v", name, behavior, p)
				}
				if w.acquire("lock", other) {
					t.Errorf("%s, %s: acquired at once", name, behavior)
				}
				w.want(`PUT /v1/txn [{"KV":{"Verb":"lock","Key":"lock","Session":"`+other+`"}}]`,
					409,
					`{"Results":null,"Errors":[{"OpIndex":0,`+
						`"What":"failed to lock key \"lock\" due to lock delay"}]}`)
				time.Sleep(5*time.Second - 10*time.Nanosecond)
				if w.acquire("lock", other) {
					t.Errorf("%s, %s: acquired within lock-delay", name, behavior)
				}
				time.Sleep(10 * time.Nanosecond)
				if !w.acquire("lock", other) {
					t.Errorf("%s, %s: not acquired after lock-delay", name, behavior)
				}
			})
		}
	}
}

func TestLockDelayDoesNotFollowReleaseOrDelete(t *testing.T) {
	bubble(t, func(w world) {
		a, b := w.session(`{"Checks":[]}`), w.session(`{"Checks":[]}`)
		w.acquire("lock", a)
		w.want("PUT /v1/kv/lock?release="+a, 200, "true")
		if !w.acquire("lock", b) {
			t.Error("not acquired after a release")
		}
		w.want("DELETE /v1/kv/lock", 200, "true")
		if !w.acquire("lock", a) {
			t.Error("not acquired after a delete")
		}
	})
}

func TestLockDelayIsCappedAtAMinute(t *testing.T) {
	bubble(t, func(w world) {
		a, b := w.session(`{"Checks":[],"LockDelay":"1h"}`), w.session(`{"Checks":[]}`)
		w.acquire("lock", a)
		w.call("PUT /v1/session/destroy/" + a)
		time.Sleep(60*time.Second - time.Nanosecond)
		if w.acquire("lock", b) {
			t.Error("acquired within the minute")
		}
		time.Sleep(time.Nanosecond)
		if !w.acquire("lock", b) {
			t.Error("not acquired after the minute")
		}
	})
}

func TestWatchDoesNotWakeAtTheEndOfLockDelay(t *testing.T) {
	bubble(t, func(w world) {
		s := w.session(noChecks)
		w.acquire("lock", s)
		w.call("PUT /v1/session/destroy/" + s)
		p := w.watch(context.Background(), "/v1/kv/lock", "30s")
		<-p.done
		if p.took != 30*time.Second {
			t.Errorf("woke after %v", p.took)
		}
	})
}
