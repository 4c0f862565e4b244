package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/keys"
)

// refusal checks that err is a refusal of operation op about key.
func refusal(t *testing.T, err error, op int, key string) *store.RefusedError {
	t.Helper()
	wantKind(t, err, store.ErrRefused, false)
	var r *store.RefusedError
	if !errors.As(err, &r) {
		t.Fatalf("error %v is no RefusedError", err)
	}
	if r.Op != op || r.Key != key || r.What == "" {
		t.Errorf("refused: %+v, want operation %d, key %q", r, op, key)
	}
	return r
}

func TestEveryConditionHoldsOrRefusesByItsIndex(t *testing.T) {
	bubble(t, func(t *testing.T, _ *devconsul.Server, s store.Store) {
		id, other := session(t, s), session(t, s)
		at := txn(t, s, store.Set("k", []byte("v"), 0)).Index
		txn(t, s, store.Lock("l", nil, 0, id))
		for name, c := range map[string]struct{ holds, refuses store.Op }{
			"check-index":      {store.CheckIndex("k", at), store.CheckIndex("k", at+1)},
			"check-index gone": {store.CheckIndex("k", at), store.CheckIndex("gone", 0)},
			"check-not-exists": {store.CheckNotExists("gone"), store.CheckNotExists("k")},
			"check-session":    {store.CheckSession("l", id), store.CheckSession("l", other)},
			"session of none":  {store.CheckSession("l", id), store.CheckSession("gone", id)},
			"lock":             {store.Lock("l", nil, 0, id), store.Lock("l", nil, 0, other)},
			"create":           {store.Create("new", nil), store.Create("k", nil)},
			"cas":              {store.CAS("k", []byte("v"), 0, at), store.CAS("k", nil, 0, at-1)},
			"cas of none":      {store.CAS("k", []byte("v"), 0, at), store.CAS("gone", nil, 0, at)},
			"delete-cas":       {store.DeleteCAS("new", 0), store.DeleteCAS("k", at-1)},
			"get":              {store.Get("k"), store.Get("gone")},
		} {
			if name == "delete-cas" {
				c.holds = store.DeleteCAS("never", at) // a missing key is as good as deleted
			}
			if _, err := s.Txn(t.Context(), store.Set("other", []byte(name), 0),
				c.holds); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			_, err := s.Txn(t.Context(), store.Set("other", nil, 0), c.refuses)
			refusal(t, err, 1, c.refuses.Key())
		}
	})
}

func TestLockDelayRefusesAndSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T, _ *devconsul.Server, s store.Store) {
		old, heir := session(t, s), session(t, s)
		txn(t, s, store.Lock("k", nil, 0, old))
		_, err := s.Txn(t.Context(), store.Lock("k", nil, 0, heir))
		if refusal(t, err, 0, "k").LockDelayed() {
			t.Errorf("held by another is taken for a lock-delay: %v", err)
		}
		must(t, s.DestroySession(t.Context(), old))
		_, err = s.Txn(t.Context(), store.Lock("k", nil, 0, heir))
		if !refusal(t, err, 0, "k").LockDelayed() {
			t.Errorf("no lock-delay: %v", err)
		}
		time.Sleep(store.DefaultLockDelay)
		txn(t, s, store.Lock("k", nil, 0, heir))
	})
}

func TestResultsAreInTheOrderOfTheOperations(t *testing.T) {
	bubble(t, func(t *testing.T, _ *devconsul.Server, s store.Store) {
		txn(t, s, store.Set("gone", nil, 0))
		id := session(t, s)
		res := txn(t, s, store.Lock("l", []byte("x"), 5, id), store.Delete("gone"),
			store.CheckNotExists("gone"), store.Create("new", []byte("y")),
			store.Get("new"), store.GetOrEmpty("gone"))
		if len(res.Entries) != 4 {
			t.Fatalf("%d entries: %+v", len(res.Entries), res.Entries)
		}
		if l := res.Entries[0]; l.Key != "l" || l.Session != id || l.Flags != 5 ||
			l.ModifyIndex != res.Index || l.CreateIndex != res.Index {
			t.Errorf("lock: %+v at %d", l, res.Index)
		}
		if e, ok := res.Entry("new"); !ok || string(e.Value) != "y" || e.CreateIndex != res.Index {
			t.Errorf("new: %+v, %v", e, ok)
		}
		if e, ok := res.Entry("gone"); !ok || e.CreateIndex != 0 {
			t.Errorf("gone: %+v, %v", e, ok)
		}
		if _, ok := res.Entry("other"); ok {
			t.Error("an entry nobody asked for")
		}
		if res := txn(t, s, store.Set("new", []byte("y"),
			0)); res.Index != res.Entries[0].CreateIndex {
			t.Errorf("an identical set got the index %d", res.Index)
		}
	})
}

func TestReadTransactionsAreConsistent(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, _ store.Store) {
		var queries []string
		s := over(t, tripper(func(r *http.Request) (*http.Response, error) {
			queries = append(queries, r.URL.RawQuery)
			return consul.RoundTripper().RoundTrip(r)
		}))
		for _, ops := range [][]store.Op{{store.GetOrEmpty("k")}, {store.CheckNotExists("k")},
			{store.CheckNotExists("a"), store.CheckNotExists("b")}} {
			if _, err := s.Txn(t.Context(), ops...); err != nil {
				t.Error(err)
			}
		}
		must(t, keys.Put(t.Context(), s, "k", nil, 0))
		_, err := s.Txn(t.Context(), store.CheckNotExists("k"))
		refusal(t, err, 0, "k")
		for i, q := range queries {
			if isPut := i == 3; strings.Contains(q, "consistent") == isPut {
				t.Errorf("request %d has the query %q", i, q)
			}
		}
	})
}

func TestLimitsOfATransactionAreCheckedBeforeSending(t *testing.T) {
	sent := 0
	s := over(t, tripper(func(r *http.Request) (*http.Response, error) {
		sent++
		return nil, io.EOF
	}))
	for name, ops := range map[string][]store.Op{
		"nothing":        {},
		"129 operations": make129(),
		"a large body":   {store.Set("k", make([]byte, 400_000), 0)},
		"many values": {store.Set("a", make([]byte, 200_000), 0),
			store.Set("b", make([]byte, 200_000), 0)},
		"a huge value":     {store.Set("k", make([]byte, store.MaxValueBytes+1), 0)},
		"the zero op":      {{}},
		"no key":           {store.Set("", nil, 0)},
		"a leading slash":  {store.Set("/k", nil, 0)},
		"an unclean key":   {store.Set("a//b", nil, 0)},
		"dots":             {store.Set("a/../b", nil, 0)},
		"a trailing blank": {store.Set("a ", nil, 0)},
		"no session":       {store.Lock("k", nil, 0, "")},
	} {
		_, err := s.Txn(t.Context(), ops...)
		wantKind(t, err, store.ErrInvalid, false)
		if sent > 0 {
			t.Fatalf("%s was sent", name)
		}
	}
}

func make129() []store.Op {
	var ops []store.Op
	for i := range 129 {
		ops = append(ops, store.Set(fmt.Sprint("k", i), nil, 0))
	}
	return ops
}

func TestWhatIsJustWithinTheLimitsPasses(t *testing.T) {
	bubble(t, func(t *testing.T, _ *devconsul.Server, s store.Store) {
		txn(t, s, make129()[:128]...)
		// Base64 makes groups of four of every three bytes; the rest is for the frame.
		const most = (store.MaxBodyBytes - 128) / 4 * 3
		txn(t, s, store.Set("k", make([]byte, most), 0))
		_, err := s.Txn(t.Context(), store.Set("k", make([]byte, most+96), 0))
		wantKind(t, err, store.ErrInvalid, false)
		wantText(t, err, "in base64")
	})
}

func TestPutAndDeleteReportWhatConsulAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, _ *devconsul.Server, s store.Store) {
		must(t, keys.Put(t.Context(), s, "k", []byte("v"), 9))
		e, found, index, err := s.Get(t.Context(), "k", store.Default)
		if err != nil || !found || string(e.Value) != "v" || e.Flags != 9 || index < e.ModifyIndex {
			t.Errorf("%+v, found %v, index %d, error %v", e, found, index, err)
		}
		must(t, keys.Put(t.Context(), s, "k", nil, 0))
		if e, found, _, err = s.Get(t.Context(), "k", store.Default); err != nil || !found ||
			e.Value == nil || len(e.Value) > 0 {
			t.Errorf("an empty value: %+v, found %v, error %v", e, found, err)
		}
		must(t, keys.Delete(t.Context(), s, "k"))
		must(t, keys.Delete(t.Context(), s, "k"))
		if _, found, index, err = s.Get(t.Context(), "k", store.Default); err != nil || found ||
			index == 0 {
			t.Errorf("after delete: found %v, index %d, error %v", found, index, err)
		}
	})
}

func TestListsAreSortedAndWhole(t *testing.T) {
	bubble(t, func(t *testing.T, _ *devconsul.Server, s store.Store) {
		for _, k := range []string{"p/b", "p/a/x", "p/", "p/a", "q", "p0"} {
			must(t, keys.Put(t.Context(), s, k, []byte(k), 0))
		}
		entries, index, err := s.List(t.Context(), "p/", store.Consistent)
		must(t, err)
		var got []string
		for _, e := range entries {
			got = append(got, e.Key)
			if !bytes.Equal(e.Value, []byte(e.Key)) || e.ModifyIndex > index {
				t.Errorf("%+v", e)
			}
		}
		if want := "p/ p/a p/a/x p/b"; strings.Join(got, " ") != want {
			t.Errorf("list %v, want %s", got, want)
		}
		names, _, err := s.ListKeys(t.Context(), "p/", "/")
		if want := "p/ p/a p/a/ p/b"; err != nil || strings.Join(names, " ") != want {
			t.Errorf("names %q, want %s; error %v", names, want, err)
		}
		if entries, index, err = s.List(t.Context(), "none/", store.Default); err != nil ||
			len(entries) != 0 || index == 0 {
			t.Errorf("an empty prefix: %v, index %d, error %v", entries, index, err)
		}
		if names, _, err = s.ListKeys(t.Context(), "none/", ""); err != nil || len(names) != 0 {
			t.Errorf("names of an empty prefix: %q, error %v", names, err)
		}
	})
}

func TestAnAnswerMadeShorterByAccessRulesIsDenied(t *testing.T) {
	filtered := always(200, `[{"Key":"p/a","Value":null,"CreateIndex":1,"ModifyIndex":1}]`,
		"X-Consul-Index", "7", "X-Consul-KnownLeader", "true", "X-Consul-LastContact", "0",
		"X-Consul-Results-Filtered-By-ACLs", "true")
	entries, _, err := over(t, filtered).List(t.Context(), "p/", store.Default)
	wantKind(t, err, store.ErrDenied, false)
	if entries != nil {
		t.Errorf("a part of the list came along: %v", entries)
	}
	short := always(200, `{"Results":[{"KV":{"Key":"a"}}],"Errors":null}`)
	_, err = over(t, short).Txn(t.Context(), store.Get("a"), store.Get("b"))
	wantKind(t, err, store.ErrDenied, false)
	wantText(t, err, `"b"`)
}

func TestAnAnswerThatDoesNotMatchTheOperationsHasAnUnknownOutcome(t *testing.T) {
	for _, results := range []string{`[{"KV":{"Key":"k","ModifyIndex":5}},{"KV":{"Key":"x"}}]`,
		`[{"KV":{"Key":"x"}}]`, `[]`, `null`, `[{}]`, `[null]`, `{}`, `7`} {
		s := over(t, always(200, `{"Results":`+results+`,"Errors":null}`))
		_, err := s.Txn(t.Context(), store.CheckNotExists("c"), store.Set("k", nil, 0),
			store.Delete("l"))
		wantKind(t, err, store.ErrUnreachable, true)
	}
	for _, errs := range []string{`[]`, `null`, `7`} {
		_, err := over(t, always(409, `{"Results":null,"Errors":`+errs+`}`)).Txn(t.Context(),
			store.Set("k", nil, 0))
		wantKind(t, err, store.ErrUnreachable, true)
	}
	// A refusal that does not say of what is one all the same.
	_, err := over(t, always(409, `{"Results":null,"Errors":[{"OpIndex":9,"What":"x"}]}`)).Txn(
		t.Context(), store.Set("k", nil, 0))
	refusal(t, err, -1, "")
}
