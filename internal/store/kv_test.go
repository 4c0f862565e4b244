package store_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// A server that has just begun to lead answers reads of the default mode from the past, until it
// has replayed its log.
func TestAKeyIsNotReadFromThePast(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, s store.Store) {
		kv, past := store.NewKV(s, counter), consul.Snapshot()
		must(t, kv.Put(t.Context(), "k", []byte("v")))
		consul.ElectionStart()
		consul.ElectionEndBehind(past)
		time.AfterFunc(5*time.Second, consul.ElectionEnd)
		if v, err := kv.Get(t.Context(), "k"); err != nil || string(v) != "v" {
			t.Errorf("got %q, %v: what was written before is to be read", v, err)
		}
	})
}

func TestALostAnswerCountsWhenTheValueIsInPlace(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, _ store.Store) {
		l := transport.NewWire(consul.RoundTripper())
		l.Next(1, l.Lose)
		kv := store.NewKV(over(t, l), counter)
		must(t, kv.Put(t.Context(), "k", []byte("v")))
		if v, err := kv.Get(t.Context(), "k"); err != nil || string(v) != "v" {
			t.Errorf("value %q, error %v", v, err)
		}
		l.Next(1, l.Lose)
		must(t, kv.Delete(t.Context(), "k"))
		_, err := kv.Get(t.Context(), "k")
		wantKind(t, err, store.ErrNotFound, false)
	})
}

func TestALateCopyOfAPutOrDeleteChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, _ store.Store) {
		l := transport.NewWire(consul.RoundTripper())
		held := &transport.Recorder{To: transport.Fail(transport.ErrReset)}
		kv := store.NewKV(over(t, l), counter)
		arrive := func(late ...*http.Request) {
			for _, r := range late {
				if transport.Again(consul.RoundTripper(), r) == 0 {
					t.Error("what was held back got no answer")
				}
			}
		}
		must(t, kv.Put(t.Context(), "k", []byte("0")))
		l.Next(1, held.RoundTrip)
		l.Next(2, held.RoundTrip)
		must(t, kv.Put(t.Context(), "k", []byte("1")))
		must(t, kv.Put(t.Context(), "k", []byte("2")))
		if n := len(held.Copies()); n != 2 {
			t.Fatalf("%d requests held back", n)
		}
		arrive(held.Copies()...)
		if v, err := kv.Get(t.Context(), "k"); err != nil || string(v) != "2" {
			t.Errorf("value %.3q, error %v", v, err)
		}
		l.Next(1, held.RoundTrip)
		must(t, kv.Delete(t.Context(), "k"))
		must(t, kv.Put(t.Context(), "k", []byte("new")))
		arrive(held.Copies()[2])
		if v, err := kv.Get(t.Context(), "k"); err != nil || string(v) != "new" {
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
		err := store.NewKV(s, counter).Put(ctx, "k", []byte("v"))
		wantKind(t, err, store.ErrRefused, false)
		if !errors.Is(err, context.DeadlineExceeded) || writes < 5 || writes > 30 {
			t.Errorf("%d writes, error %v", writes, err)
		}
	})
}

// The answer to a delete is lost. What others write before the next try was not there when the key
// was deleted: who had read that it was gone would find its own value gone as well.
func TestADeleteWhoseAnswerIsLostDeletesNothingThatWasMadeSince(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, s store.Store) {
		l := transport.NewWire(consul.RoundTripper())
		l.Next(2, l.Lose) // the first one marks the key
		kv, others := store.NewKV(over(t, l), counter), store.NewKV(s, counter)
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
