package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/coordd/coordd/test/realconsul"
)

// env is what a case in Go works with.
type env struct {
	*testing.T
	target target
	client *api.Client
	prefix string // of the keys that are this case's own; ends in a slash
}

func (e env) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

func (e env) session(entry api.SessionEntry) string {
	e.Helper()
	id, _, err := e.client.Session().CreateNoChecks(&entry, nil)
	e.must(err)
	return id
}

func (e env) acquire(key, session string) bool {
	e.Helper()
	ok, _, err := e.client.KV().Acquire(&api.KVPair{Key: key, Value: []byte(session),
		Session: session}, nil)
	e.must(err)
	return ok
}

func (e env) get(key string) *api.KVPair {
	e.Helper()
	pair, _, err := e.client.KV().Get(key, nil)
	e.must(err)
	return pair
}

// TestCases runs the cases that a script cannot say. The real server is not the transcripts' one:
// those see every key and every index of theirs, and wipe it.
func TestCases(t *testing.T) {
	t.Parallel()
	real := realconsul.Start(t, realconsul.Options{})
	starts := map[string]func(*testing.T) target{
		"port": embeddedOnPort, "in-process": embeddedInProcess,
		"real": func(t *testing.T) target { return targetOf(t, real) },
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for on, start := range starts {
				t.Run(on, func(t *testing.T) {
					t.Parallel()
					tg := start(t)
					c(env{T: t, target: tg, client: tg.client(t), prefix: realconsul.Prefix(t)})
				})
			}
		})
	}
}

var cases = map[string]func(env){
	"cas never loses an update":                           casNeverLoses,
	"a lock has one holder at a time":                     oneHolder,
	"a blocking query ends with its context":              blockingEndsWithContext,
	"a wait lasts as long as asked and a sixteenth more":  waitLastsAsAsked,
	"every write wakes a watch that keeps up":             watchSeesEveryWrite,
	"a silent ttl check takes its session along":          silentCheckEndsSession,
	"a session ends at twice its ttl, not before":         sessionEndsAtTwiceTTL,
	"a renewal starts the ttl anew":                       renewalStartsAnew,
	"a key is locked for its lock-delay and no longer":    lockDelayEnds,
	"a delayed key of a deleting session can be acquired": deletedKeyAfterDelay,
}

func casNeverLoses(e env) {
	const writers, each = 8, 10
	key := e.prefix + "counter"
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				for {
					pair, _, err := e.client.KV().Get(key, nil)
					if err != nil {
						e.Error(err)
						return
					}
					next := &api.KVPair{Key: key, Value: []byte("1")}
					if pair != nil {
						next.ModifyIndex, next.Value = pair.ModifyIndex, append(pair.Value, '1')
					}
					ok, _, err := e.client.KV().CAS(next, nil)
					if err != nil {
						e.Error(err)
						return
					}
					if ok {
						break
					}
				}
			}
		})
	}
	wg.Wait()
	if got := len(e.get(key).Value); got != writers*each {
		e.Errorf("%d updates are left of %d", got, writers*each)
	}
}

func oneHolder(e env) {
	key := e.prefix + "lock"
	var mu sync.Mutex
	holders, turns := 0, 0
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			id, _, err := e.client.Session().CreateNoChecks(
				&api.SessionEntry{LockDelay: time.Millisecond}, nil)
			if err != nil {
				e.Error(err)
				return
			}
			for mine := 0; mine < 5; {
				ok, _, err := e.client.KV().Acquire(&api.KVPair{Key: key, Session: id}, nil)
				if err != nil {
					e.Error(err)
					return
				}
				if !ok {
					time.Sleep(time.Millisecond)
					continue
				}
				mu.Lock()
				holders++
				if holders != 1 {
					e.Errorf("%d hold it at once", holders)
				}
				turns++
				holders--
				mu.Unlock()
				mine++
				if ok, _, err := e.client.KV().Release(&api.KVPair{Key: key, Session: id},
					nil); err != nil || !ok {
					e.Errorf("release: %v, %v", ok, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if pair := e.get(key); turns != 30 || pair == nil || pair.LockIndex != 30 {
		e.Errorf("%d turns; the key says %+v", turns, pair)
	}
}

func blockingEndsWithContext(e env) {
	_, err := e.client.KV().Put(&api.KVPair{Key: e.prefix + "a"}, nil)
	e.must(err)
	index := e.get(e.prefix + "a").ModifyIndex
	ctx, cancel := context.WithCancel(e.Context())
	time.AfterFunc(settle, cancel)
	begin := time.Now()
	_, _, err = e.client.KV().Get(e.prefix+"a",
		(&api.QueryOptions{WaitIndex: index, WaitTime: 2 * patience}).WithContext(ctx))
	if !errors.Is(err, context.Canceled) || time.Since(begin) > patience {
		e.Errorf("after %v: %v", time.Since(begin), err)
	}
}

func waitLastsAsAsked(e env) {
	_, err := e.client.KV().Put(&api.KVPair{Key: e.prefix + "a"}, nil)
	e.must(err)
	index := e.get(e.prefix + "a").ModifyIndex
	const wait = 1600 * time.Millisecond
	begin := time.Now()
	pair, meta, err := e.client.KV().Get(e.prefix+"a", &api.QueryOptions{WaitIndex: index,
		WaitTime: wait})
	e.must(err)
	// A wait that is not asked for lasts for 5 minutes.
	if took := time.Since(begin); took < wait || took > patience {
		e.Errorf("took %v", took)
	}
	if pair == nil || meta.LastIndex != index {
		e.Errorf("%+v, %+v", pair, meta)
	}
}

func watchSeesEveryWrite(e env) {
	key := e.prefix + "a"
	_, err := e.client.KV().Put(&api.KVPair{Key: key, Value: []byte("0")}, nil)
	e.must(err)
	index, seen := e.get(key).ModifyIndex, make(chan string)
	ctx, cancel := context.WithTimeout(e.Context(), time.Minute)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			pair, meta, err := e.client.KV().Get(key,
				(&api.QueryOptions{WaitIndex: index, WaitTime: time.Minute}).WithContext(ctx))
			if err != nil {
				return
			}
			if meta.LastIndex < index {
				e.Errorf("the index went back from %d to %d", index, meta.LastIndex)
			}
			index = meta.LastIndex
			select {
			case seen <- string(pair.Value):
			case <-ctx.Done():
				return
			}
		}
	}()
	for i := 1; i <= 20; i++ {
		want := fmt.Sprint(i)
		_, err := e.client.KV().Put(&api.KVPair{Key: key, Value: []byte(want)}, nil)
		e.must(err)
		// It may return without a change; it must not miss one.
		for got := ""; got != want; {
			select {
			case got = <-seen:
			case <-ctx.Done():
				e.Fatalf("write %d was never seen", i)
			}
		}
	}
	cancel()
	<-done
}

func silentCheckEndsSession(e env) {
	name := "svc-" + randomName()
	e.must(e.client.Agent().ServiceRegister(&api.AgentServiceRegistration{
		Name: name, Check: &api.AgentServiceCheck{CheckID: name, TTL: "3s", Status: "passing"},
	}))
	defer func() { e.must(e.client.Agent().ServiceDeregister(name)) }()
	// The agent brings the check to the catalog on its own time.
	var id string
	for deadline := time.Now().Add(patience); id == ""; {
		e.must(e.client.Agent().PassTTL(name, ""))
		created, _, err := e.client.Session().Create(&api.SessionEntry{LockDelay: time.Millisecond,
			ServiceChecks: []api.ServiceCheck{{ID: name}}, NodeChecks: []string{}}, nil)
		switch {
		case err == nil:
			id = created
		case time.Now().After(deadline):
			e.Fatal(err)
		default:
			time.Sleep(50 * time.Millisecond)
		}
	}
	if !e.acquire(e.prefix+"lock", id) {
		e.Fatal("not acquired")
	}
	begin := time.Now()
	e.must(e.client.Agent().PassTTL(name, ""))
	for e.get(e.prefix+"lock").Session != "" {
		if time.Since(begin) > patience {
			e.Fatal("the session outlives its check")
		}
		time.Sleep(20 * time.Millisecond)
	}
	if took := time.Since(begin); took < 3*time.Second {
		e.Errorf("ended after %v, before the check's TTL", took)
	}
}
