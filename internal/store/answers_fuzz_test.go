package store_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/internal/store"
)

// FuzzAnyAnswer gives one answer to every call: whatever it is, a call returns what
// it was asked for or an error of exactly one kind, and a watch does not spin.
func FuzzAnyAnswer(f *testing.F) {
	for _, s := range []struct {
		status uint16
		index  string
		leader string
		kind   string
		body   string
	}{
		{200, "7", "true", "application/json",
			`[{"Key":"leader","Value":"eA==","Session":"s","CreateIndex":1,"ModifyIndex":2}]`},
		{200, "7", "true", "application/json", `[null]`},
		{200, "7", "true", "application/json", `[]`},
		{200, "7", "true", "application/json", `null`},
		{200, "7", "true", "application/json", `true`},
		{200, "7", "true", "application/json",
			`{"Results":[{"KV":{"Key":"leader","ModifyIndex":9}}],"Errors":null}`},
		{200, "7", "true", "application/json", `{"Results":[{"KV":null}],"Errors":[null]}`},
		{409, "", "", "application/json",
			`{"Results":null,"Errors":[{"OpIndex":-5,"What":"x"},{"OpIndex":1000}]}`},
		{200, "7", "true", "application/json", `{"ID":"a/b"}`},
		{200, "7", "true", "application/json", `[{"ID":"other","TTL":"10s"}]`},
		{200, "", "", "text/html", "<html>log in</html>"},
		{404, "7", "true", "", ""},
		{404, "", "", "text/html", "<html>not found</html>"},
		{404, "18446744073709551615", "maybe", "", "Session id 's' not found"},
		{200, "18446744073709551616", "true", "", "[]"},
		{500, "-1", "", "", "No cluster leader"},
		{500, "", "", "", "invalid session \"s\""},
		{403, "", "", "", "Permission denied: anonymous token lacks permission"},
		{413, "", "", "", "Request body too large"},
		{429, "", "", "", "Your IP is issuing too many concurrent connections"},
		{301, "", "", "", ""},
		{0, "", "", "", ""},
		{999, "x", "x", "x", "\x00\xff"},
	} {
		f.Add(s.status, s.index, s.leader, s.kind, []byte(s.body))
	}
	f.Fuzz(func(t *testing.T, status uint16, index, leader, kind string, body []byte) {
		synctest.Test(t, func(t *testing.T) {
			var asked atomic.Int32
			s := over(t, tripper(func(r *http.Request) (*http.Response, error) {
				asked.Add(1)
				return answer(r, int(status), string(body), "X-Consul-Index", index,
					"X-Consul-KnownLeader", leader, "Content-Type", kind), nil
			}))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			everyCall(t, ctx, s)
			asked.Store(0)
			w := store.WatchPrefix(s, "work/")
			for range 3 { // as an actor does: Next leaves the pause after an error to it
				if _, err := w.Next(ctx); err != nil {
					oneKind(t, err)
				}
			}
			if n := asked.Load(); n > 60 {
				t.Errorf("three looks at a watch asked %d times within a minute", n)
			}
		})
	})
}

// everyCall makes each call of the store and checks what it returns.
func everyCall(t *testing.T, ctx context.Context, s store.Store) {
	e, found, at, err := s.Get(ctx, "leader", store.Consistent)
	if oneKind(t, err); err == nil && (found && e.Key != "leader" || at == 0) {
		t.Errorf("Get gave %+v, index %d", e, at)
	}
	entries, _, err := s.List(ctx, "work/", store.Default)
	oneKind(t, err)
	for _, e := range entries {
		if !strings.HasPrefix(e.Key, "work/") || err != nil {
			t.Errorf("List of work/ gave %+v with %v", e, err)
		}
	}
	names, _, err := s.ListKeys(ctx, "assignments/", "/")
	oneKind(t, err)
	for _, name := range names {
		if !strings.HasPrefix(name, "assignments/") {
			t.Errorf("ListKeys of assignments/ gave %q", name)
		}
	}
	res, err := s.Txn(ctx, store.CheckIndex("leader", 5), store.Set("acks/m", []byte("1"), 0))
	if oneKind(t, err); err == nil {
		if _, ok := res.Entry("acks/m"); !ok {
			t.Errorf("a transaction counts as applied without an answer about its write: %+v", res)
		}
	}
	res, err = s.Txn(ctx, store.GetOrEmpty("work/a"),
		store.CheckNotExists("members/m"))
	if oneKind(t, err); err == nil {
		if _, ok := res.Entry("work/a"); !ok {
			t.Errorf("a read counts as answered without what was read: %+v", res)
		}
	}
	if id, _, err := s.CreateSession(ctx, store.SessionOptions{Name: "x",
		TTL: store.DefaultTTL}); err == nil && id == "" {
		t.Error("a session without an id")
	} else {
		oneKind(t, err)
	}
	_, err = s.RenewSession(ctx, "s", 0)
	oneKind(t, err)
	_, _, err = s.SessionInfo(ctx, "s")
	oneKind(t, err)
	oneKind(t, s.DestroySession(ctx, "s"))
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := store.NewKV(s, counter).Put(short, "a", []byte("b")); err != nil &&
		!errors.Is(err, context.DeadlineExceeded) {
		oneKind(t, err)
	}
}

// oneKind checks that an error matches one of the package's kinds and no other.
func oneKind(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	n := 0
	for _, k := range kinds {
		if errors.Is(err, k) {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%q matches %d kinds", err, n)
	}
}
