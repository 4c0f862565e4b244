package web

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/coordd/coordd/actors/actorstest"
)

func TestProfilesAreServedOnlyWhereTheHostSaysSoAndOnlyForItsNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := actorstest.New(t).Start("n1", nil).Coordinator()
		profiles := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "profile")
		})
		for _, ask := range []struct {
			options      Options
			method, host string
			want         int
		}{
			{Options{}, http.MethodGet, "localhost", http.StatusNotFound},
			{Options{Pprof: profiles}, http.MethodGet, "localhost", http.StatusOK},
			{Options{Pprof: profiles}, http.MethodPost, "localhost",
				http.StatusMethodNotAllowed},
			{Options{Pprof: profiles}, http.MethodGet, "evil.example", http.StatusForbidden},
		} {
			r := httptest.NewRequest(ask.method, "/debug/pprof/heap", nil)
			r.Host = ask.host
			w := httptest.NewRecorder()
			New(c, ask.options).ServeHTTP(w, r)
			if w.Code != ask.want {
				t.Errorf("%s for %s: %d, want %d", ask.method, ask.host, w.Code, ask.want)
			}
		}
	})
}
