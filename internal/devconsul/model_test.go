package devconsul_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/hashicorp/consul/api"
	"pgregory.net/rapid"
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
	rapid.Check(t, func(t *rapid.T) {
		s := devconsul.New(devconsul.Config{})
		defer s.Close()
		kv, sess, ctx := s.Client().KV(), s.Client().Session(),
			(&api.WriteOptions{}).WithContext(context.Background())
		m := &model{keys: make(map[string]modelKey), sessions: make(map[string]bool)}
		s.OnCommit(m.commit)

		key := rapid.SampledFrom([]string{"a", "a/", "a/b", "a/b/c", "a/bc", "ab", "b", "b/a"})
		value := rapid.SampledFrom([]string{"", "1", "2"})
		var ids []string
		session := func(t *rapid.T) string {
			return rapid.SampledFrom(append([]string{"none"}, ids...)).Draw(t, "session")
		}
		pair := func(t *rapid.T) *api.KVPair {
			k := key.Draw(t, "key")
			p := &api.KVPair{Key: k, Value: []byte(value.Draw(t, "value")), Session: session(t)}
			p.ModifyIndex = rapid.SampledFrom([]uint64{0, 1, m.keys[k].modify}).Draw(t, "index")
			return p
		}
		var snap devconsul.Snapshot
		var snapModel model
		t.Repeat(map[string]func(*rapid.T){
			"put":         func(t *rapid.T) { kv.Put(pair(t), ctx) },
			"cas":         func(t *rapid.T) { kv.CAS(pair(t), ctx) },
			"acquire":     func(t *rapid.T) { kv.Acquire(pair(t), ctx) },
			"release":     func(t *rapid.T) { kv.Release(pair(t), ctx) },
			"delete":      func(t *rapid.T) { kv.Delete(key.Draw(t, "key"), ctx) },
			"delete-cas":  func(t *rapid.T) { kv.DeleteCAS(pair(t), ctx) },
			"delete-tree": func(t *rapid.T) { kv.DeleteTree(key.Draw(t, "prefix"), ctx) },
			"txn": func(t *rapid.T) {
				verb := rapid.SampledFrom([]api.KVOp{
					"set", "cas", "lock", "unlock", "delete", "delete-cas", "delete-tree",
					"get-or-empty", "check-index", "check-not-exists",
				})
				var ops api.KVTxnOps
				for range rapid.IntRange(1, 4).Draw(t, "ops") {
					p := pair(t)
					ops = append(ops, &api.KVTxnOp{
						Verb: verb.Draw(t, "verb"), Key: p.Key, Value: p.Value, Session: p.Session,
						Index: p.ModifyIndex,
					})
				}
				kv.Txn(ops, nil)
			},
			"create session": func(t *rapid.T) {
				behavior := rapid.SampledFrom([]string{"release", "delete"}).Draw(t, "behavior")
				// Without a lock-delay, so that no outcome depends on the clock.
				var out struct{ ID string }
				body := map[string]any{"Behavior": behavior, "LockDelay": "0s",
					"Checks": []string{}}
				if _, err := s.Client().Raw().Write("/v1/session/create", body, &out,
					ctx); err != nil {
					t.Fatal(err)
				}
				ids = append(ids, out.ID)
			},
			"destroy session": func(t *rapid.T) { sess.Destroy(session(t), ctx) },
			"snapshot": func(t *rapid.T) {
				snap = s.Snapshot()
				snapModel = model{keys: maps.Clone(m.keys), sessions: maps.Clone(m.sessions)}
			},
			"restore": func(t *rapid.T) {
				if snap == (devconsul.Snapshot{}) {
					return
				}
				if err := s.Restore(snap); err != nil {
					t.Fatal(err)
				}
				m.keys, m.sessions = maps.Clone(snapModel.keys), maps.Clone(snapModel.sessions)
			},
			"": func(t *rapid.T) {
				if err := m.compare(s.Dump()); err != nil {
					t.Fatal(err)
				}
			},
		})
	})
}
