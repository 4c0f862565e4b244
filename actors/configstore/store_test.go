package configstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/internal/testkit/transport"
)

func TestAMissingKeyIsAnErrorAndAnEmptyValueIsAValue(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.start().ready()
		if _, err := s.Get(t.Context(), "none"); !errors.Is(err, configstore.ErrNotFound) {
			t.Errorf("a missing key: %v", err)
		}
		s.put("empty", "")
		if e, err := s.Get(t.Context(), "empty"); err != nil || e.Value == nil ||
			len(e.Value) != 0 {
			t.Errorf("an empty value: %v, %v", e, err)
		}
		other := r.start().ready()
		r.expect("an empty value, read by another", other.get("empty"), "")
	})
}

func TestTheFirstStartInitialisesAndLaterOnesLoad(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		a := r.start().ready()
		r.expect("root", r.raw("config_data/root") != "-", true)
		a.put("k", "v")
		a.stop()
		b := r.start().ready()
		r.expect("k", b.get("k"), "v")
		r.expect("writes of root", r.times("root={}"), 1)
	})
	run(t, func(t *testing.T, r *rig) { // what the system before this one has left
		r.stranger("config_data/root", "anything")
		r.stranger("config_data/a/b", "old\x00binary")
		s := r.start().ready()
		r.expect("an old value", s.get("a/b"), "old\x00binary")
		r.expect("root", r.raw("config_data/root"), "anything")
	})
}

func TestReadYourWritesHoldsWhateverTheWatchHasSeen(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.start().ready()
		for i := range 200 {
			key, value := fmt.Sprintf("k%d", i%7), fmt.Sprint(i)
			index := s.put(key, value)
			e, err := s.Get(t.Context(), key)
			if err != nil || string(e.Value) != value || e.Index != index {
				t.Fatalf("after put %s=%s at %d: %s at %d, %v", key, value, index, e.Value, e.Index,
					err)
			}
			if i%5 == 0 {
				must(t, s.Delete(t.Context(), key))
				r.expect("after a delete", s.get(key), "-")
			}
			time.Sleep(time.Duration(i%4) * 7 * time.Millisecond)
		}
	})
}

func TestAnotherInstancesWriteIsSeenAtOnce(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		a, b := r.start().ready(), r.start().ready()
		a.put("k", "1")
		r.await("b sees 1", 200*time.Millisecond, func() bool { return b.get("k") == "1" })
		b.put("k", "2")
		r.await("a sees 2", 200*time.Millisecond, func() bool { return a.get("k") == "2" })
		r.stranger("config_data/k", "3")
		r.await("both see a stranger's", 200*time.Millisecond, func() bool {
			return a.get("k") == "3" && b.get("k") == "3"
		})
		r.strangerDeletes("config_data/k")
		r.await("both see it gone", 200*time.Millisecond, func() bool {
			return a.get("k") == "-" && b.get("k") == "-"
		})
		r.stranger("config_data/folder/", "")
		r.stranger("config_data_not_ours", "x")
		time.Sleep(time.Second)
		keys, err := a.List(t.Context(), "")
		if err != nil || len(keys) != 1 || keys[0].Key != "root" {
			t.Errorf("listed %v, %v", keys, err)
		}
	})
}

func TestReadsFromTheCacheAskNobody(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.start().ready()
		s.put("k", "v")
		time.Sleep(time.Second)
		s.net.Requests()
		for range 1000 {
			r.expect("k", s.get("k"), "v")
		}
		n := 0
		for _, calls := range s.net.Requests() {
			n += calls
		}
		if n > 1 {
			t.Errorf("a thousand reads took %d requests", n)
		}
	})
}

func TestAStaleCacheIsNotBelieved(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.start().ready()
		s.put("k", "old")
		time.Sleep(time.Second) // the cache shows it
		s.net.Cut(errors.New("cut off"))
		r.stranger("config_data/k", "new")
		time.Sleep(configstore.DefaultMaxAge + 15*time.Second)
		if s.Fresh() {
			t.Error("it counts as fresh")
		}
		if e, err := s.Get(r.ctx(time.Second), "k"); !errors.Is(err, configstore.ErrUnreachable) ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %q, %v", e.Value, err)
		}
		if e, ok := s.Data().Get().Get("k"); !ok || string(e.Value) != "old" {
			t.Errorf("the cache itself: %q", e.Value)
		}
		s.net.Cut(nil)
		r.expect("k", s.get("k"), "new")
		r.await("fresh again", 10*time.Second, s.Fresh)
		if got, err := s.List(t.Context(), "k"); err != nil || len(got) != 1 ||
			string(got[0].Value) != "new" {
			t.Errorf("%v, %v", got, err)
		}
	})
}

func TestCompareAndSetWritesOnlyOverWhatWasRead(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		a, b := r.start().ready(), r.start().ready()
		index, err := a.CompareAndSet(t.Context(), "k", []byte("1"), 0)
		must(t, err)
		if _, err := b.CompareAndSet(t.Context(), "k", []byte("other"), 0); !errors.Is(err,
			configstore.ErrConflict) {
			t.Fatalf("created twice: %v", err)
		} else if c := (*configstore.ConflictError)(nil); !errors.As(err, &c) || c.Key != "k" ||
			c.Have != index {
			t.Errorf("it says %v", err)
		}
		r.expect("after the conflict the cache shows what was in the way", b.get("k"), "1")
		next, err := b.CompareAndSet(t.Context(), "k", []byte("2"), index)
		if err != nil || next <= index {
			t.Fatal(next, err)
		}
		if _, err := a.CompareAndSet(t.Context(), "k", []byte("3"), index); !errors.Is(err,
			configstore.ErrConflict) {
			t.Fatalf("an old index: %v", err)
		}
		if err := a.CompareAndDelete(t.Context(), "k", index); !errors.Is(err,
			configstore.ErrConflict) {
			t.Fatalf("an old index: %v", err)
		}
		must(t, a.CompareAndDelete(t.Context(), "k", next))
		if err := a.CompareAndDelete(t.Context(), "k", next); !errors.Is(err,
			configstore.ErrConflict) {
			t.Fatalf("a key that is gone: %v", err)
		}
		r.expect("k", r.raw("config_data/k"), "-")
	})
}

func TestUpdatesOfManyInstancesLoseNothing(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		var wg sync.WaitGroup
		for range 4 {
			s := r.start().ready()
			for range 3 {
				wg.Go(func() {
					for range 10 {
						_, err := s.Update(r.ctx(10*time.Minute), "count",
							func(old configstore.Entry, found bool) ([]byte, error) {
								n := 0
								if found {
									if _, err := fmt.Sscan(string(old.Value), &n); err != nil {
										return nil, err
									}
								}
								return fmt.Append(nil, n+1), nil
							})
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		wg.Wait()
		r.expect("count", r.raw("config_data/count"), 120)
		s := r.stores[0]
		if _, err := s.Update(t.Context(), "count", func(configstore.Entry, bool) ([]byte, error) {
			return nil, errStop
		}); !errors.Is(err, errStop) {
			t.Errorf("the function's own error: %v", err)
		}
	})
}

var errStop = errors.New("no, after all")

func TestATransactionIsAppliedWholeOrNotAtAll(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.start().ready()
		a := s.put("a", "1")
		s.put("b", "1")
		time.Sleep(time.Second) // the cache shows it
		w := s.WatchPrefix("")
		if _, err := w.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Txn(t.Context(), configstore.Set("b", []byte("2")), configstore.Remove("c"),
			configstore.Expect("a", a+1)); !errors.Is(err, configstore.ErrConflict) {
			t.Fatalf("a condition that does not hold: %v", err)
		}
		r.expect("b", s.get("b"), "1")
		index, err := s.Txn(t.Context(), configstore.Expect("a", a),
			configstore.Set("b", []byte("2")), configstore.SetAt("c", []byte("2"), 0),
			configstore.Expect("d", 0))
		if err != nil || index == 0 {
			t.Fatal(index, err)
		}
		changes, err := w.Next(t.Context())
		if err != nil || len(changes) != 2 || changes[0].Key != "b" || changes[1].Key != "c" ||
			changes[0].Index != index || changes[1].Index != index {
			t.Errorf("seen as %v, %v", changes, err)
		}
		if _, err := s.Txn(t.Context(), configstore.RemoveAt("b", index), configstore.Remove("c"),
			configstore.Remove("none")); err != nil {
			t.Fatal(err)
		}
		r.expect("b and c", s.get("b")+s.get("c"), "--")
	})
}

func TestWhatCannotBeWrittenIsRefusedBeforeAnythingIsSent(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.start().ready()
		synctest.Wait() // the key root is written
		s.net.Requests()
		for name, c := range map[string]struct {
			ops  []configstore.Op
			want error
			says string
		}{
			"a large value": {[]configstore.Op{configstore.Set("k",
				make([]byte, configstore.MaxValue+1))}, configstore.ErrTooLarge, "389121 bytes"},
			"an empty key": {[]configstore.Op{configstore.Set("", nil)},
				configstore.ErrInvalid, "empty"},
			"a slash in front": {[]configstore.Op{configstore.Set("/k", nil)},
				configstore.ErrInvalid, "slash"},
			"a slash at the end": {[]configstore.Op{configstore.Set("k/", nil)},
				configstore.ErrInvalid, "slash"},
			"dots": {[]configstore.Op{configstore.Remove("a/../b")},
				configstore.ErrInvalid, ".."},
			"a control character": {[]configstore.Op{configstore.Set("a\nb", nil)},
				configstore.ErrInvalid, "control"},
			"a long key": {[]configstore.Op{configstore.Set(strings.Repeat("k", 600),
				nil)}, configstore.ErrInvalid, "600 bytes"},
			"nothing": {nil, configstore.ErrInvalid, "no operation"},
			"only a condition": {[]configstore.Op{configstore.Expect("k", 0)},
				configstore.ErrInvalid, "nothing"},
			"a key twice": {[]configstore.Op{configstore.Set("k", nil),
				configstore.Remove("k")}, configstore.ErrInvalid, "twice"},
			"too many keys": {make([]configstore.Op, configstore.MaxTxnKeys+1),
				configstore.ErrTooLarge, "64 keys"},
			"too much together": {[]configstore.Op{configstore.Set("a", make([]byte, 200<<10)),
				configstore.Set("b", make([]byte, 200<<10))}, configstore.ErrTooLarge, "split"},
		} {
			_, err := s.Txn(t.Context(), c.ops...)
			if !errors.Is(err, c.want) || !errors.Is(err, configstore.ErrInvalid) ||
				!strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n := s.net.Requests()["PUT /v1/txn"]; n != 0 {
			t.Errorf("%d requests were sent", n)
		}
		// The largest of everything is taken.
		value := make([]byte, configstore.MaxValue)
		if _, err := s.Put(t.Context(), "k", value); err != nil {
			t.Error(err)
		}
		ops := make([]configstore.Op, configstore.MaxTxnKeys)
		for i := range ops {
			ops[i] = configstore.Set(fmt.Sprintf("many/%03d", i),
				make([]byte, configstore.MaxValue/len(ops)-600))
		}
		if _, err := s.Txn(t.Context(), ops...); err != nil {
			t.Error(err)
		}
		for i := range ops {
			e, err := s.Get(t.Context(), ops[i].Key())
			must(t, err)
			ops[i] = configstore.RemoveAt(e.Key, e.Index)
		}
		if _, err := s.Txn(t.Context(), ops...); err != nil {
			t.Error(err)
		}
	})
}

func TestADeniedTokenIsSaidAtOnceAndReadsGoOn(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		r.stranger("config_data/k", "v")
		s := r.prepare()
		to := s.net.To()
		s.net.Via(transport.Func(func(r *http.Request) (*http.Response, error) {
			if isTxn(r) {
				return denied(r)
			}
			return to.RoundTrip(r)
		}))
		s.run()
		s.ready()
		r.expect("k", s.get("k"), "v")
		begin := time.Now()
		if _, err := s.Put(r.ctx(time.Minute), "k", []byte("x")); !errors.Is(err,
			configstore.ErrDenied) {
			t.Error(err)
		}
		if d := time.Since(begin); d > time.Second {
			t.Errorf("it took %v", d)
		}
	})
}

func TestAWatchShowsEverythingFirstAndThenWhatChanges(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.start().ready()
		s.put("a/1", "x")
		s.put("b", "x")
		time.Sleep(time.Second) // the cache shows it
		prefix, key := s.WatchPrefix("a/"), s.Watch("b")
		show := func(w *configstore.Watch) string {
			c, err := w.Next(r.ctx(time.Minute))
			must(t, err)
			var out []string
			for _, c := range c {
				out = append(out, map[bool]string{false: c.Key + "=" + string(c.Value),
					true: c.Key + " deleted"}[c.Deleted])
			}
			return strings.Join(out, " ")
		}
		r.expect("first", show(prefix)+"|"+show(key), "a/1=x|b=x")
		s.put("b", "y")
		r.stranger("config_data/a/2", "z")
		r.expect("changes", show(prefix)+"|"+show(key), "a/2=z|b=y")
		if _, err := s.Txn(t.Context(), configstore.Remove("a/1"), configstore.Remove("b"),
			configstore.Set("a/0", nil)); err != nil {
			t.Fatal(err)
		}
		r.expect("deletes", show(prefix)+"|"+show(key), "a/0= a/1 deleted|b deleted")
		if _, err := key.Next(r.ctx(time.Hour)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("nothing has changed: %v", err)
		}
	})
}

func TestAStoreWithoutABackendSaysWhatToSet(t *testing.T) {
	s := configstore.None()
	_, get := s.Get(t.Context(), "k")
	_, put := s.Put(t.Context(), "k", nil)
	_, list := s.List(t.Context(), "")
	_, txn := s.Txn(t.Context())
	_, watch := s.Watch("k").Next(t.Context())
	_, update := s.Update(t.Context(), "k", nil)
	for _, err := range []error{get, put, list, txn, watch, update,
		s.Delete(t.Context(), "k"), s.WaitLoaded(t.Context()), s.Run(t.Context())} {
		if !errors.Is(err, configstore.ErrNoBackend) || !strings.Contains(err.Error(),
			`Config.Backend to "consul"`) {
			t.Errorf("%v", err)
		}
	}
	s.Queue().Get()
	s.Data().Get()
	if err := s.Child("config").Run(t.Context()); !errors.Is(err, configstore.ErrNoBackend) {
		t.Errorf("as a child: %v", err)
	}
}

func TestConsulNeedNotBeThereAtTheStart(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.prepare()
		s.net.Cut(errors.New("not yet"))
		s.run()
		if _, err := s.Put(r.ctx(time.Second), "k", nil); !errors.Is(err,
			configstore.ErrUnreachable) {
			t.Error(err)
		}
		time.AfterFunc(10*time.Second, func() { s.net.Cut(nil) })
		s.ready()
		s.put("k", "v")
	})
}

// A second Run would write beside the first one, under the same name.
func TestAStoreIsRunOnce(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.start().ready()
		if err := s.Run(t.Context()); !errors.Is(err, configstore.ErrStarted) {
			t.Errorf("a second Run: %v", err)
		}
	})
}
