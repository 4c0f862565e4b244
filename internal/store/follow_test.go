package store_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/keys"
)

// A watch that is renewed reads anew at once: its poll is given up, or not begun. It asks again on
// the ladder after failures, and polls on with the index after an answer.
func TestAWatchReadsAnewWhenItsPollsAreRenewedAndAfterErrors(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, s store.Store) {
		must(t, keys.Put(t.Context(), s, "p/", nil, 0)) // an empty prefix is read twice
		var asked []string
		broken := 0
		w := store.WatchPrefix(over(t, tripper(func(r *http.Request) (*http.Response, error) {
			kind := "read"
			if r.URL.Query().Has("index") {
				kind = "poll"
			}
			asked = append(asked, kind)
			if broken > 0 {
				broken--
				return answer(r, http.StatusInternalServerError, "No cluster leader"), nil
			}
			return consul.RoundTripper().RoundTrip(r)
		})), "p/")
		var polls store.Polls
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		views, start := 0, time.Now()
		want := func(what string, at time.Duration, kinds ...string) {
			t.Helper()
			took := time.Since(start)
			// the ladder varies
			if !slices.Equal(asked, kinds) || took < at*8/10 || took > at*12/10 {
				t.Errorf("%s: asked %q after %v; want %q after %v", what, asked, took, kinds, at)
			}
			asked, start = nil, time.Now()
		}
		for range w.Views(ctx, "p", &polls, w.Next) {
			switch views++; views {
			case 1:
				want("begin", 0, "read")
				time.AfterFunc(time.Minute/2, polls.Renew)
			case 2:
				want("renewed under way", time.Minute/2, "poll", "read")
				polls.Renew()
				broken = 2
			case 3:
				want("renewed between polls, two failures", 150*time.Millisecond, "read", "read",
					"read")
				time.AfterFunc(time.Second, func() {
					keys.Put(context.Background(), s, "p/a", []byte("v"), 0)
				})
			case 4:
				want("changed", time.Second, "poll")
				time.AfterFunc(time.Second, cancel)
			default:
				t.Error("a view after the end")
			}
		}
		want("ended", time.Second, "poll")
		if views != 4 || ctx.Err() == nil {
			t.Errorf("%d views, %v", views, ctx.Err())
		}
	})
}

func TestACrowdOfViewsRestsLongerAndALargeViewTheMore(t *testing.T) {
	bubble(t, func(t *testing.T, _ *devconsul.Server, _ store.Store) {
		var c store.Crowd
		for i := range 15 {
			if d := c.Rest(store.View{}); d != time.Duration(min(i, 10))*10*time.Millisecond {
				t.Errorf("view %d: %v", i, d)
			}
		}
		time.Sleep(300 * time.Millisecond)
		for _, keys := range []int{5_000, 1_000_000} {
			if d := c.Rest(store.View{Entries: make([]store.Entry, keys)}); d != min(
				50*time.Millisecond*time.Duration(keys/5000), time.Second) {
				t.Errorf("%d keys: %v", keys, d)
			}
		}
	})
}
