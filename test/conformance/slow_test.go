package conformance_test

import (
	"time"

	"github.com/hashicorp/consul/api"
)

// poll asks until the answer is no, every 50 ms.
func (e env) poll(limit time.Duration, still func() bool) {
	e.Helper()
	begin := time.Now()
	for still() {
		if time.Since(begin) > limit {
			e.Fatalf("still so after %v", limit)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (e env) alive(session string) bool {
	e.Helper()
	info, _, err := e.client.Session().Info(session, nil)
	e.must(err)
	return info != nil
}

// expired is when a session of 10 s ends that nobody renews, by Consul's multiplier of 2, seen on a
// busy machine.
const (
	expiredFrom = 20 * time.Second
	expiredTo   = 50 * time.Second
)

func sessionEndsAtTwiceTTL(e env) {
	begin := time.Now() // before the server's own: the time seen is never shorter
	keep := e.session(api.SessionEntry{TTL: "10s", LockDelay: time.Second})
	remove := e.session(api.SessionEntry{TTL: "10s", LockDelay: time.Minute,
		Behavior: api.SessionBehaviorDelete})
	if !e.acquire(e.prefix+"kept", keep) || !e.acquire(e.prefix+"removed", remove) {
		e.Fatal("not acquired")
	}
	index := e.get(e.prefix + "kept").ModifyIndex
	// The end of the session is what wakes the watch of its key.
	pair, _, err := e.client.KV().Get(e.prefix+"kept", &api.QueryOptions{WaitIndex: index,
		WaitTime: patience})
	e.must(err)
	if took := time.Since(begin); took < expiredFrom || took > expiredTo {
		e.Errorf("ended after %v, want 20 s", took)
	}
	if pair == nil || pair.Session != "" || pair.ModifyIndex <= index ||
		string(pair.Value) != keep {
		e.Errorf("the key after the end: %+v", pair)
	}
	if e.alive(keep) {
		e.Error("the session is still listed")
	}
	e.poll(patience, func() bool { return e.get(e.prefix+"removed") != nil })
	if _, _, err := e.client.Session().Renew(keep, nil); err != nil {
		e.Error(err) // the client turns the 404 into a nil entry
	}
	// An expiry begins the lock-delay like any other end.
	next := e.session(api.SessionEntry{})
	if e.acquire(e.prefix+"removed", next) {
		e.Error("acquired within the lock-delay")
	}
}

func renewalStartsAnew(e env) {
	id := e.session(api.SessionEntry{TTL: "10s"})
	time.Sleep(6 * time.Second)
	begin := time.Now()
	entry, _, err := e.client.Session().Renew(id, nil)
	e.must(err)
	if entry == nil || entry.TTL != "10s" {
		e.Fatalf("renewed: %+v", entry)
	}
	e.poll(expiredTo, func() bool { return e.alive(id) })
	if took := time.Since(begin); took < expiredFrom {
		e.Errorf("ended %v after its renewal, want 20 s", took)
	}
}

func lockDelayEnds(e env) {
	key := e.prefix + "lock"
	one := e.session(api.SessionEntry{LockDelay: 2 * time.Second})
	two := e.session(api.SessionEntry{})
	if !e.acquire(key, one) {
		e.Fatal("not acquired")
	}
	before := time.Now()
	_, err := e.client.Session().Destroy(one, nil)
	e.must(err)
	index := e.get(key).ModifyIndex
	e.poll(patience, func() bool { return !e.acquire(key, two) })
	if took := time.Since(before); took < 2*time.Second {
		e.Errorf("acquired after %v, before the lock-delay of 2 s", took)
	}
	if pair := e.get(key); pair.ModifyIndex <= index || pair.LockIndex != 2 {
		e.Errorf("%+v", pair)
	}
}

func deletedKeyAfterDelay(e env) {
	key := e.prefix + "lock"
	one := e.session(api.SessionEntry{LockDelay: time.Second, Behavior: api.SessionBehaviorDelete})
	two := e.session(api.SessionEntry{})
	if !e.acquire(key, one) {
		e.Fatal("not acquired")
	}
	created := e.get(key).CreateIndex
	begin := time.Now()
	_, err := e.client.Session().Destroy(one, nil)
	e.must(err)
	if e.get(key) != nil {
		e.Fatal("the key outlives its session")
	}
	e.poll(patience, func() bool { return !e.acquire(key, two) })
	if took := time.Since(begin); took < time.Second {
		e.Errorf("acquired after %v, before the lock-delay of 1 s", took)
	}
	if pair := e.get(key); pair.CreateIndex <= created || pair.LockIndex != 1 {
		e.Errorf("%+v", pair)
	}
}
