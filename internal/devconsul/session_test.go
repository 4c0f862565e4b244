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

func TestSessionWithoutTTLNeverExpires(t *testing.T) {
	bubble(t, func(w world) {
		a, b := w.session(`{"Checks":[]}`), w.session(`{"Checks":[],"TTL":"0s"}`)
		time.Sleep(1000 * time.Hour)
		if !w.alive(a) || !w.alive(b) {
			t.Error("gone")
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

func TestLockIndexIsNoFence(t *testing.T) {
	bubble(t, func(w world) {
		a := w.session(`{"Checks":[]}`)
		check := func(step string, want uint64) {
			t.Helper()
			if p := w.key("lock"); p.LockIndex != want {
				t.Errorf("%s: LockIndex %d, want %d", step, p.LockIndex, want)
			}
		}
		w.acquire("lock", a)
		check("acquire", 1)
		w.acquire("lock", a)
		check("acquire again", 1)
		w.call("PUT /v1/kv/lock?release=" + a)
		w.acquire("lock", a)
		check("release and acquire", 2)
		first := w.key("lock").ModifyIndex
		w.call("PUT /v1/kv/lock stranger")
		check("a stranger's write", 0)
		if w.key("lock").Session != a {
			t.Error("a stranger's write took the lock away")
		}
		w.call("DELETE /v1/kv/lock")
		w.acquire("lock", a)
		check("delete and acquire", 1)
		if w.key("lock").ModifyIndex <= first {
			t.Error("ModifyIndex did not rise")
		}
	})
}

func TestHoldingIsRefusedToOthers(t *testing.T) {
	bubble(t, func(w world) {
		a, b := w.session(`{"Checks":[]}`), w.session(`{"Checks":[]}`)
		w.acquire("lock", a)
		if w.acquire("lock", b) {
			t.Error("two holders")
		}
		w.want("PUT /v1/kv/lock?release="+b, 200, "false")
		w.want("PUT /v1/kv/none?release="+b, 200, "false")
		w.want("PUT /v1/kv/lock?release="+a+"&flags=7 bye", 200, "true")
		if p := w.key("lock"); string(p.Value) != "bye" || p.Flags != 7 || p.Session != "" {
			t.Errorf("a release overwrites value and flags; got %+v", p)
		}
		w.want("PUT /v1/kv/lock?release="+a, 200, "false")
	})
}

func TestDestroyingADeadSessionIsTrue(t *testing.T) {
	bubble(t, func(w world) {
		before := w.s.Dump().Index
		w.want("PUT /v1/session/destroy/11111111-2222-3333-4444-555555555555", 200, "true")
		if w.s.Dump().Index != before {
			t.Error("it cost a log entry")
		}
	})
}

func TestRefusedSessionsSayWhy(t *testing.T) {
	bubble(t, func(w world) {
		for body, want := range map[string]string{
			`{"TTL":"9s"}`: "Invalid Session TTL '9000000000', must be between " +
				"[10s=24h0m0s]",
			`{"TTL":"86401s"}`: "Invalid Session TTL '86401000000000', must be between " +
				"[10s=24h0m0s]",
			`{"TTL":"x"}`:          `Session TTL 'x' invalid: time: invalid duration "x"`,
			`{"Behavior":"x"}`:     "Invalid Behavior setting 'x'",
			`{"Node":"elsewhere"}`: "apply failed: Missing node registration",
			`{"NodeChecks":["c"]}`: "apply failed: Missing check 'c' registration",
			`{"Checks":["c"]}`:     "apply failed: Missing check 'c' registration",
		} {
			w.want("PUT /v1/session/create "+body, 500, want)
		}
		w.call(`PUT /v1/catalog/register {"Node":"far","Address":"1.2.3.4",` +
			`"Check":{"Name":"db","Status":"critical"}}`)
		w.want(`PUT /v1/session/create {"Node":"far","Checks":["db"]}`, 500,
			"apply failed: Check 'db' is in critical state")
		w.want("PUT /v1/session/create {bad", 400,
			"Request decode failed: invalid character 'b' looking for beginning of object "+
				"key string")
		if n := len(w.s.Dump().Sessions); n != 0 {
			t.Errorf("%d sessions were made", n)
		}
	})
}

func TestShortLockDelayNumbersAreSeconds(t *testing.T) {
	bubble(t, func(w world) {
		for body, want := range map[string]time.Duration{
			`{}`: 15 * time.Second, `{"LockDelay":5}`: 5 * time.Second,
			`{"LockDelay":1500000000}`: 1500 * time.Millisecond,
			`{"LockDelay":"500ms"}`:    500 * time.Millisecond, `{"LockDelay":0}`: 0,
		} {
			id := w.session(body)
			e, _, err := w.c.Session().Info(id, nil)
			if err != nil || e.LockDelay != want {
				t.Errorf("%s: %v, %v; want %v", body, e.LockDelay, err, want)
			}
		}
	})
}
