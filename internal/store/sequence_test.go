package store_test

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/keys"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// recorded runs f with a store whose transactions are kept; the guard is not among them.
func recorded(t *testing.T, f func(t *testing.T, r *transport.Recorder, s store.Store,
	guard store.Op)) {
	t.Helper()
	bubble(t, func(t *testing.T, consul *devconsul.Server, s store.Store) {
		r := &transport.Recorder{To: consul.RoundTripper()}
		f(t, r, over(t, r), guarded(t, s))
	})
}

func opened(t *testing.T, s store.Store, guard store.Op) *store.Writer {
	t.Helper()
	w, err := store.OpenWriter(t.Context(), s, guard, "sequence/", 2,
		store.Set("sentinel/", nil, 0))
	must(t, err)
	return w
}

func TestATransactionOfAWriterTakesEffectOnceAtMost(t *testing.T) {
	recorded(t, func(t *testing.T, r *transport.Recorder, s store.Store, guard store.Op) {
		w := opened(t, s, guard)
		for i := range 3 {
			for _, o := range w.Write(t.Context(), []store.Unit{unit("m", i)}) {
				must(t, o.Err)
			}
		}
		must(t, keys.Delete(t.Context(), s, "a/m/00001")) // released
		must(t, keys.Delete(t.Context(), s, "sentinel/"))
		written := slices.DeleteFunc(r.Copies(), transport.TxnWith(`"get-tree"`))
		for _, copied := range written[:4] { // the opening and the writes
			if code := transport.Again(r.To, copied); code != http.StatusConflict {
				t.Errorf("a second copy was answered %d: %s", code, transport.Text(copied))
			}
		}
		for _, key := range []string{"a/m/00001", "sentinel/"} {
			if _, found, _, err := s.Get(t.Context(), key, store.Consistent); found || err != nil {
				t.Errorf("%s is there again (%v)", key, err)
			}
		}
	})
}

// A transaction that was refused is one that has no effect: a copy of it that arrives when its
// conditions hold has none either.
func TestARefusalOfAWriterIsFinal(t *testing.T) {
	recorded(t, func(t *testing.T, r *transport.Recorder, s store.Store, guard store.Op) {
		w := opened(t, s, guard)
		must(t, keys.Put(t.Context(), s, "a/m/00001", nil, 0))
		before := len(r.Copies())
		out := w.Write(t.Context(), []store.Unit{unit("m", 1), unit("m", 2)})
		refusal(t, out[0].Err, 0, "a/m/00001")
		must(t, keys.Delete(t.Context(), s, "a/m/00001"))
		if code := transport.Again(r.To, r.Copies()[before]); code != http.StatusConflict {
			t.Errorf("a copy of what was refused was answered %d", code)
		}
		for _, o := range w.Write(t.Context(), []store.Unit{unit("m", 1), unit("m", 2)}) {
			must(t, o.Err) // the writer goes on
		}
	})
}

// Where a refusal cannot be made final the unit's outcome is not known.
func TestARefusalThatCannotBeMadeFinalIsInDoubt(t *testing.T) {
	recorded(t, func(t *testing.T, r *transport.Recorder, s store.Store, guard store.Op) {
		w := opened(t, s, guard)
		must(t, keys.Put(t.Context(), s, "a/m/00001", nil, 0))
		plain := r.To
		r.To = tripper(func(req *http.Request) (*http.Response, error) {
			r.To = tripper(func(*http.Request) (*http.Response, error) {
				return nil, io.ErrUnexpectedEOF
			})
			return plain.RoundTrip(req)
		})
		wantKind(t, w.Write(t.Context(), []store.Unit{unit("m", 1)})[0].Err, store.ErrUnreachable,
			true)
	})
	recorded(t, func(t *testing.T, r *transport.Recorder, s store.Store, guard store.Op) {
		w := opened(t, s, guard)
		must(t, keys.Put(t.Context(), s, "a/m/00001", nil, 0))
		plain := r.To
		r.To = tripper(func(req *http.Request) (*http.Response, error) {
			resp, err := plain.RoundTrip(req)
			if err == nil && resp.StatusCode == http.StatusConflict {
				r.To = plain
				// the guard holds no more
				must(t, keys.Put(t.Context(), over(t, plain), "leader", []byte("stranger"), 0))
			}
			return resp, err
		})
		out := w.Write(t.Context(), []store.Unit{unit("m", 1)})
		if r := refusal(t, out[0].Err, -1, "leader"); !r.Guard {
			t.Errorf("%v: want a refusal of the guard", out[0].Err)
		}
	})
}

// What an earlier writer has under way is void once there is another one with its keys.
func TestAnotherWriterEndsTheOneBeforeIt(t *testing.T) {
	recorded(t, func(t *testing.T, r *transport.Recorder, s store.Store, guard store.Op) {
		first := opened(t, s, guard)
		second := opened(t, s, guard)
		out := first.Write(t.Context(), []store.Unit{unit("m", 1)})
		if r := refusal(t, out[0].Err, -1, "sequence/0"); !r.Guard {
			t.Errorf("%v: want the writer to be of no use any more", out[0].Err)
		}
		must(t, second.Write(t.Context(), []store.Unit{unit("m", 1)})[0].Err)
		if _, err := store.OpenWriter(t.Context(), s, store.CheckIndex("leader", 1), "sequence/",
			2); err == nil {
			t.Error("opened behind a guard that does not hold")
		}
	})
}

// The names in a sequence key tell what became of a transaction, as far back as they go.
func TestASequenceKeyTellsWhatBecameOfATransaction(t *testing.T) {
	bubble(t, func(t *testing.T, _ *devconsul.Server, s store.Store) {
		read := func() store.Sequence {
			q, err := store.ReadSequence(t.Context(), s, "sequence/x")
			must(t, err)
			return q
		}
		move := func(q store.Sequence, name string) {
			_, err := s.Txn(t.Context(), q.Move(name))
			must(t, err)
		}
		before, name := read(), store.NewName()
		if applied, known := read().Outcome(before, name); applied || !known {
			t.Errorf("what was not sent is applied: %v, known: %v", applied, known)
		}
		move(before, name)
		if applied, known := read().Outcome(before, name); !applied || !known {
			t.Errorf("what was applied is applied: %v, known: %v", applied, known)
		}
		if _, err := s.Txn(t.Context(), before.Move(name)); !errors.Is(err, store.ErrRefused) {
			t.Errorf("a second copy is answered %v", err)
		}
		before, name = read(), store.NewName()
		for others := range 130 {
			if applied, known := read().Outcome(before, name); applied || known != (others < 128) {
				t.Errorf("after %d others: applied: %v, known: %v", others, applied, known)
			}
			move(read(), store.NewName())
		}
	})
}

// Once tells a refusal by the caller's own condition from the meeting with another writer.
func TestOnceSaysWhichConditionRefused(t *testing.T) {
	recorded(t, func(t *testing.T, r *transport.Recorder, s store.Store, _ store.Op) {
		once, other, plain := store.NewOnce(s, "sequence/x"), store.NewOnce(s, "sequence/x"), r.To
		meets := true
		r.To = tripper(func(req *http.Request) (*http.Response, error) {
			if meets && transport.Txn(req) != "" {
				meets = false
				if _, err := other.Txn(t.Context(), store.Set("b", nil, 0)); err != nil {
					return nil, err
				}
			}
			return plain.RoundTrip(req)
		})
		_, err := once.Txn(t.Context(), store.Create("a", nil))
		must(t, err)
		_, err = once.Txn(t.Context(), store.Set("b", nil, 0), store.Create("a", nil))
		refusal(t, err, 1, "a")
	})
}
