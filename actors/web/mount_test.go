package web

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/devconsul"
)

func TestAMountedHandlerAnswersOnlyForItsOwnNames(t *testing.T) {
	consul := devconsul.New(devconsul.Config{Logger: slog.New(slog.DiscardHandler)})
	defer consul.Close()
	c, err := actors.New(actors.Config{Service: "demo", ID: "m1", Client: consul.Client(),
		Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	mux := http.NewServeMux()
	mux.Handle("/coordd/", http.StripPrefix("/coordd",
		New(c, Options{Hosts: []string{"jobs.example.org"}})))
	for host, want := range map[string]int{"jobs.example.org": 200, "jobs.example.org:443": 200,
		"127.0.0.1:7070": 200, "localhost": 200, "evil.example": 403} {
		for _, path := range []string{"", "v1/status", "v1/holders", "v1/tree"} {
			r := httptest.NewRequest(http.MethodGet, "http://"+host+"/coordd/"+path, nil)
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("%q for %s: %d, want %d", path, host, w.Code, want)
			}
			if text := w.Body.String(); want == 403 && !strings.Contains(text,
				"web.Options.Hosts") {
				t.Errorf("the refusal does not say what to do: %s", text)
			}
		}
	}
}
