package web

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/devconsul"
)

func TestMetricsAreServedUnderTheSameRules(t *testing.T) {
	consul := devconsul.New(devconsul.Config{Logger: slog.New(slog.DiscardHandler)})
	defer consul.Close()
	c, err := actors.New(actors.Config{Service: "demo", ID: "m1", Client: consul.Client(),
		Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	some := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "coordd_some 1")
	})
	for _, ask := range []struct {
		handler      http.Handler
		method, host string
		want         int
	}{
		{some, "GET", "127.0.0.1:7070", 200},
		{some, "HEAD", "127.0.0.1:7070", 200},
		{some, "GET", "evil.example", 403},
		{some, "POST", "127.0.0.1:7070", 405},
		{nil, "GET", "127.0.0.1:7070", 404},
	} {
		w := httptest.NewRecorder()
		New(c, Options{Metrics: ask.handler}).ServeHTTP(w,
			httptest.NewRequest(ask.method, "http://"+ask.host+"/metrics", nil))
		if w.Code != ask.want {
			t.Errorf("%s of %s: %d, want %d", ask.method, ask.host, w.Code, ask.want)
		}
		if got := w.Header().Get("X-Content-Type-Options"); got == "" && w.Code == 200 {
			t.Error("the answer has not the headers of the others")
		}
	}
}
