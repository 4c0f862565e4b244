package devconsul_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/testkit"
	"github.com/hashicorp/consul/api"
)

// modelKey is what the model below knows of a key.
type modelKey struct {
	value   string
	session string
	create  uint64
	modify  uint64
}

// model is the KV store as a plain map, driven by what OnCommit tells. It knows nothing of trees.
type model struct {
	keys     map[string]modelKey
	sessions map[string]bool
	last     uint64
	wrong    []string
}

func (m *model) commit(c devconsul.Commit) {
	if c.Index <= m.last {
		m.wrong = append(m.wrong, fmt.Sprintf("index %d after %d", c.Index, m.last))
	}
	m.last = c.Index
	if !c.Applied {
		return
	}
	for _, op := range c.Ops {
		old, exists := m.keys[op.Key]
		next := modelKey{value: string(op.Value), session: old.session, create: old.create,
			modify: c.Index}
		if !exists {
			next.create = c.Index
		}
		switch op.Verb {
		case "session-create":
			m.sessions[op.Session] = true
		case "session-destroy":
			delete(m.sessions, op.Session)
		case "set", "cas":
			m.put(op.Key, next)
		case "lock":
			if !m.sessions[op.Session] || exists && old.session != "" && old.session != op.Session {
				m.wrong = append(m.wrong, fmt.Sprintf("index %d: %s locks %s, held by %q", c.Index,
					op.Session, op.Key, old.session))
			}
			next.session = op.Session
			m.put(op.Key, next)
		case "unlock", "session-release":
			if old.session != op.Session {
				m.wrong = append(m.wrong, fmt.Sprintf("index %d: %s frees %s, held by %q", c.Index,
					op.Session, op.Key, old.session))
			}
			next.session = ""
			if op.Verb == "session-release" {
				next.value = old.value
			}
			m.put(op.Key, next)
		case "delete", "delete-cas", "session-delete":
			delete(m.keys, op.Key)
		case "delete-tree":
			maps.DeleteFunc(m.keys, func(k string, _ modelKey) bool {
				return strings.HasPrefix(k, op.Key)
			})
		}
	}
}

// put raises modify even when the contents stay the same, for the model has no LockIndex to
// compare: so the store's ModifyIndex may be lower, not higher.
func (m *model) put(key string, next modelKey) { m.keys[key] = next }

func (m *model) compare(d devconsul.Dump) error {
	if len(m.wrong) > 0 {
		return fmt.Errorf("%s", strings.Join(m.wrong, "; "))
	}
	if len(d.Entries) != len(m.keys) {
		return fmt.Errorf("%d keys, want %d", len(d.Entries), len(m.keys))
	}
	for _, e := range d.Entries {
		k, ok := m.keys[e.Key]
		if !ok || k.value != string(e.Value) || k.session != e.Session ||
			k.create != e.CreateIndex ||
			e.ModifyIndex > k.modify || e.ModifyIndex < e.CreateIndex {
			return fmt.Errorf("%+v, want %+v", e, k)
		}
	}
	var ids []string
	for _, s := range d.Sessions {
		ids = append(ids, s.ID)
	}
	if want := slices.Sorted(maps.Keys(m.sessions)); !slices.Equal(ids, want) {
		return fmt.Errorf("sessions %v, want %v", ids, want)
	}
	return nil
}

// TestAnyHistoryAgreesWithAPlainMap runs random requests, restores included, and compares the store
// with a map after each one.
func TestAnyHistoryAgreesWithAPlainMap(t *testing.T) {
	testkit.Draws(t, func(t *testing.T, d testkit.Dice) {
		s := devconsul.New(devconsul.Config{})
		defer s.Close()
		kv, sess, ctx := s.Client().KV(), s.Client().Session(),
			(&api.WriteOptions{}).WithContext(context.Background())
		m := &model{keys: make(map[string]modelKey), sessions: make(map[string]bool)}
		s.OnCommit(m.commit)

		key := func() string {
			return testkit.Pick(d, "a", "a/", "a/b", "a/b/c", "a/bc", "ab", "b", "b/a")
		}
		ids := []string{"none"}
		pair := func() *api.KVPair {
			k := key()
			return &api.KVPair{Key: k, Value: []byte(testkit.Pick(d, "", "1", "2")),
				Session:     testkit.Pick(d, ids...),
				ModifyIndex: testkit.Pick(d, 0, 1, m.keys[k].modify)}
		}
		var snap devconsul.Snapshot
		var snapModel model
		acts := []func(){
			func() { kv.Put(pair(), ctx) },
			func() { kv.CAS(pair(), ctx) },
			func() { kv.Acquire(pair(), ctx) },
			func() { kv.Release(pair(), ctx) },
			func() { kv.Delete(key(), ctx) },
			func() { kv.DeleteCAS(pair(), ctx) },
			func() { kv.DeleteTree(key(), ctx) },
			func() {
				var ops api.KVTxnOps
				for range 1 + d.IntN(4) {
					p := pair()
					ops = append(ops, &api.KVTxnOp{Verb: testkit.Pick[api.KVOp](d, "set", "cas",
						"lock", "unlock", "delete", "delete-cas", "delete-tree", "get-or-empty",
						"check-index", "check-not-exists"), Key: p.Key, Value: p.Value,
						Session: p.Session, Index: p.ModifyIndex})
				}
				kv.Txn(ops, nil)
			},
			func() {
				// Without a lock-delay, so that no outcome depends on the clock.
				var out struct{ ID string }
				body := map[string]any{"Behavior": testkit.Pick(d, "release", "delete"),
					"LockDelay": "0s", "Checks": []string{}}
				if _, err := s.Client().Raw().Write("/v1/session/create", body, &out,
					ctx); err != nil {
					t.Fatal(err)
				}
				ids = append(ids, out.ID)
			},
			func() { sess.Destroy(testkit.Pick(d, ids...), ctx) },
			func() {
				snap = s.Snapshot()
				snapModel = model{keys: maps.Clone(m.keys), sessions: maps.Clone(m.sessions)}
			},
			func() {
				if snap == (devconsul.Snapshot{}) {
					return
				}
				if err := s.Restore(snap); err != nil {
					t.Fatal(err)
				}
				m.keys, m.sessions = maps.Clone(snapModel.keys), maps.Clone(snapModel.sessions)
			},
		}
		for range d.Few(60) {
			testkit.Pick(d, acts...)()
			if err := m.compare(s.Dump()); err != nil {
				t.Fatal(err)
			}
		}
	})
}
