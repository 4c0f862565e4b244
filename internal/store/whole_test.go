package store_test

import (
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// anonymous runs f with a way to an embedded Consul without a token; denied takes its rights away.
func anonymous(t *testing.T, f func(t *testing.T, all, s *store.Store, denied *atomic.Bool)) {
	t.Helper()
	bubble(t, func(t *testing.T, consul *devconsul.Server, all *store.Store) {
		var denied atomic.Bool
		f(t, all, over(t, transport.Anonymous(consul.RoundTripper(), denied.Load)), &denied)
	})
}

func TestAListIsNotEmptyBecauseItMayNotBeRead(t *testing.T) {
	anonymous(t, func(t *testing.T, all, s *store.Store, denied *atomic.Bool) {
		must(t, all.Put(t.Context(), "p/a", nil, 0))
		denied.Store(true)
		_, _, listed := s.List(t.Context(), "p/", store.Consistent)
		_, named := s.ListKeys(t.Context(), "p/", "/")
		_, watched := s.WatchPrefix("p/").Next(t.Context())
		for _, err := range []error{listed, named, watched} {
			if wantKind(t, err, store.ErrDenied, false); err != nil {
				wantText(t, err, "key_prefix:", `"p/"`)
			}
		}
	})
}

// The token has lost its rights when a poll begins, and has them again when its answer comes.
func TestAPollIsAnsweredByTheRightsOfItsBeginning(t *testing.T) {
	anonymous(t, func(t *testing.T, all, s *store.Store, denied *atomic.Bool) {
		must(t, all.Put(t.Context(), "p/a", nil, 0))
		w := s.WatchPrefix("p/")
		_, err := w.Next(t.Context())
		must(t, err)
		denied.Store(true)
		time.AfterFunc(time.Second, func() {
			denied.Store(false)
			must(t, all.Put(t.Context(), "p/b", nil, 0))
		})
		if v, err := w.Next(t.Context()); err != nil || len(v.Entries) != 2 {
			t.Errorf("it sees %v, error %v", v.Entries, err)
		}
	})
}

// What comes between the two looks at an empty prefix is seen, under the names of a list.
func TestWhatComesJustAfterAnEmptyListIsInIt(t *testing.T) {
	for separator, want := range map[string][]string{
		"":  {"p/", "p/a/1", "p/a/2", "p/b", "p/c/1"},
		"/": {"p/", "p/a/", "p/b", "p/c/"},
	} {
		bubble(t, func(t *testing.T, consul *devconsul.Server, all *store.Store) {
			s := over(t, tripper(func(r *http.Request) (*http.Response, error) {
				resp, err := consul.RoundTripper().RoundTrip(r)
				if r.URL.Query().Has("keys") {
					for _, key := range []string{"p/", "p/a/1", "p/a/2", "p/b", "p/c/1"} {
						must(t, all.Put(t.Context(), key, []byte("v"), 0))
					}
				}
				return resp, err
			}))
			got, err := s.ListKeys(t.Context(), "p/", separator)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("by %q: %q, error %v; want %q", separator, got, err, want)
			}
		})
	}
}
