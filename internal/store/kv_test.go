package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/transport"
)

func TestAnEmptyValueIsAValueAndAMissingKeyIsNotFound(t *testing.T) {
	bubble(t, func(t *testing.T, _ *devconsul.Server, s *store.Store) {
		kv := s.KV(counter)
		_, err := kv.Get(t.Context(), "cfg/k")
		wantKind(t, err, store.ErrNotFound, false)
		must(t, kv.Put(t.Context(), "cfg/k", nil))
		v, err := kv.Get(t.Context(), "cfg/k")
		if err != nil || v == nil || len(v) != 0 {
			t.Errorf("value %v, error %v", v, err)
		}
		must(t, kv.Delete(t.Context(), "cfg/k"))
		must(t, kv.Delete(t.Context(), "cfg/k"))
		_, err = kv.Get(t.Context(), "cfg/k")
		wantKind(t, err, store.ErrNotFound, false)
	})
}

func TestValuesUpToConsulsLimitAreWritten(t *testing.T) {
	bubble(t, func(t *testing.T, _ *devconsul.Server, s *store.Store) {
		kv := s.KV(counter)
		for _, n := range []int{1, store.MaxKVBytes} {
			value := bytes.Repeat([]byte{byte(n)}, n)
			must(t, kv.Put(t.Context(), "k", value))
			if got, err := kv.Get(t.Context(), "k"); err != nil || !bytes.Equal(got, value) {
				t.Errorf("%d bytes: got %d, error %v", n, len(got), err)
			}
		}
		wantKind(t, kv.Put(t.Context(), "k", make([]byte, store.MaxKVBytes+1)), store.ErrInvalid,
			false)
		wantKind(t, kv.Put(t.Context(), "a//b", nil), store.ErrInvalid, false)
	})
}

// A server that has just begun to lead answers reads of the default mode from the past, until it
// has replayed its log.
func TestAKeyIsNotReadFromThePast(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, s *store.Store) {
		kv, past := s.KV(counter), consul.Snapshot()
		must(t, kv.Put(t.Context(), "k", []byte("v")))
		consul.ElectionStart()
		consul.ElectionEndBehind(past)
		time.AfterFunc(5*time.Second, consul.ElectionEnd)
		if v, err := kv.Get(t.Context(), "k"); err != nil || string(v) != "v" {
			t.Errorf("got %q, %v: what was written before is to be read", v, err)
		}
	})
}

func TestCallsLastThroughAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, s *store.Store) {
		must(t, s.Put(t.Context(), "k", []byte("v"), 0))
		consul.ElectionStart()
		time.AfterFunc(20*time.Second, consul.ElectionEnd)
		start := time.Now()
		v, err := s.KV(counter).Get(t.Context(), "k")
		if err != nil || string(v) != "v" {
			t.Errorf("value %q, error %v", v, err)
		}
		if took := time.Since(start); took < 20*time.Second || took > 26*time.Second {
			t.Errorf("took %v", took)
		}
		consul.ElectionStart()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err = s.KV(counter).Put(ctx, "k", []byte("w"))
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, store.ErrUnreachable) {
			t.Errorf("error %v", err)
		}
	})
}

// arrive delivers what was held back.
func arrive(t *testing.T, l *transport.Astray) {
	t.Helper()
	if slices.Contains(l.Deliver(), 0) {
		t.Error("what was held back got no answer")
	}
}

func TestALostAnswerCountsWhenTheValueIsInPlace(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, _ *store.Store) {
		l := &transport.Astray{To: consul.RoundTripper()}
		l.Lose(1, transport.TxnWith(`"cas"`))
		kv := over(t, l).KV(counter)
		must(t, kv.Put(t.Context(), "k", []byte("v")))
		if v, err := kv.Get(t.Context(), "k"); err != nil || string(v) != "v" {
			t.Errorf("value %q, error %v", v, err)
		}
		l.Lose(1, transport.TxnWith(`"cas"`))
		must(t, kv.Delete(t.Context(), "k"))
		_, err := kv.Get(t.Context(), "k")
		wantKind(t, err, store.ErrNotFound, false)
	})
}

func TestALateCopyOfAPutOrDeleteChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, _ *store.Store) {
		l := &transport.Astray{To: consul.RoundTripper()}
		kv := over(t, l).KV(counter)
		must(t, kv.Put(t.Context(), "k", []byte("0")))
		l.Hold(2, transport.TxnWith(`"cas"`))
		must(t, kv.Put(t.Context(), "k", []byte("1")))
		must(t, kv.Put(t.Context(), "k", []byte("2")))
		if l.Held() != 2 {
			t.Fatalf("%d requests held back", l.Held())
		}
		arrive(t, l)
		if v, err := kv.Get(t.Context(), "k"); err != nil || string(v) != "2" {
			t.Errorf("value %.3q, error %v", v, err)
		}
		l.Hold(1, transport.TxnWith(`"cas"`))
		must(t, kv.Delete(t.Context(), "k"))
		must(t, kv.Put(t.Context(), "k", []byte("new")))
		arrive(t, l)
		if v, err := kv.Get(t.Context(), "k"); err != nil || string(v) != "new" {
			t.Errorf("value %q, error %v", v, err)
		}
	})
}

func TestConcurrentWritersAllFinishAndOneValueIsWhole(t *testing.T) {
	bubble(t, func(t *testing.T, _ *devconsul.Server, s *store.Store) {
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for j := range 5 {
					if err := s.KV(counter).Put(context.Background(), "k",
						[]byte(fmt.Sprint(i, " ", j))); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		v, err := s.KV(counter).Get(t.Context(), "k")
		var i, j int
		if n, _ := fmt.Sscanf(string(v), "%d %d", &i, &j); err != nil || n != 2 {
			t.Errorf("value %q, error %v", v, err)
		}
	})
}

func TestAWriteThatIsAlwaysRefusedEndsWithItsContextAndDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		consul := devconsul.New(devconsul.Config{})
		defer consul.Close()
		writes := 0
		s := over(t, tripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPut {
				writes++
				return answer(r, 409,
						`{"Results":null,"Errors":[{"OpIndex":0,`+
							`"What":"failed to set key, index is stale"}]}`),
					nil
			}
			return consul.RoundTripper().RoundTrip(r)
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := s.KV(counter).Put(ctx, "k", []byte("v"))
		wantKind(t, err, store.ErrRefused, false)
		if !errors.Is(err, context.DeadlineExceeded) || writes < 5 || writes > 30 {
			t.Errorf("%d writes, error %v", writes, err)
		}
	})
}

// A put that created its key, and arrives once more after the key was deleted, does not bring it
// back.
func TestASecondCopyOfAPutDoesNotUndoADelete(t *testing.T) {
	recorded(t, func(t *testing.T, r *transport.Recorder, s *store.Store, _ store.Op) {
		kv := s.KV(counter)
		must(t, kv.Put(t.Context(), "cfg/k", []byte("old")))
		must(t, kv.Put(t.Context(), "cfg/k", []byte("new")))
		must(t, kv.Delete(t.Context(), "cfg/k"))
		for _, copied := range r.Copies() {
			if code := transport.Again(r.To, copied); code != http.StatusConflict &&
				strings.Contains(transport.Text(copied), `"cas"`) {
				t.Errorf("a second copy was answered %d: %s", code, transport.Text(copied))
			}
		}
		_, err := kv.Get(t.Context(), "cfg/k")
		wantKind(t, err, store.ErrNotFound, false)
		must(t, kv.Put(t.Context(), "cfg/k", []byte("again")))
		for _, copied := range r.Copies() { // the delete among them: it was of another version
			transport.Again(r.To, copied)
		}
		if v, err := kv.Get(t.Context(), "cfg/k"); err != nil || string(v) != "again" {
			t.Errorf("value %q, error %v", v, err)
		}
	})
}

// A try that would have created its key, and was given up on, arrives after the key was made by
// others, replaced by the next try, and deleted.
func TestATryOfAPutThatArrivesLateDoesNotUndoADelete(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, s *store.Store) {
		l := &transport.Astray{To: consul.RoundTripper()}
		l.Hold(1, transport.TxnWith(`"cas"`))
		kv := over(t, l).KV(counter)
		time.AfterFunc(time.Millisecond, func() { must(t, s.Put(t.Context(), "k", nil, 0)) })
		must(t, kv.Put(t.Context(), "k", []byte("v")))
		if l.Held() != 1 {
			t.Fatalf("%d requests held back", l.Held())
		}
		must(t, s.KV(counter).Delete(t.Context(), "k"))
		arrive(t, l)
		_, err := kv.Get(t.Context(), "k")
		wantKind(t, err, store.ErrNotFound, false)
	})
}

// The answer to a delete is lost. What others write before the next try was not there when the key
// was deleted: who had read that it was gone would find its own value gone as well.
func TestADeleteWhoseAnswerIsLostDeletesNothingThatWasMadeSince(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, s *store.Store) {
		l := &transport.Astray{To: consul.RoundTripper()}
		l.Lose(1, transport.TxnWith(`"delete-cas"`))
		kv, others := over(t, l).KV(counter), s.KV(counter)
		must(t, others.Put(t.Context(), "k", []byte("old")))
		time.AfterFunc(time.Millisecond, func() {
			_, err := others.Get(t.Context(), "k")
			wantKind(t, err, store.ErrNotFound, false)
			must(t, others.Put(t.Context(), "k", []byte("new")))
		})
		must(t, kv.Delete(t.Context(), "k"))
		if v, err := others.Get(t.Context(), "k"); err != nil || string(v) != "new" {
			t.Errorf("value %q, error %v", v, err)
		}
	})
}
