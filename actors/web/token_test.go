package web

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/actorstest"
	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/testkit"
)

const aToken = "c2VjcmV0:with-a-colon"

// bearer and basic are the headers of a request with a token.
func bearer(token string) []string { return []string{"Authorization", "Bearer " + token} }

func basic(user, token string) []string {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.SetBasicAuth(user, token)
	return []string{"Authorization", r.Header.Get("Authorization")}
}

// guarded is the page of a member that runs, with a token.
func guarded(t *testing.T) (*actorstest.Cluster, *actorstest.Member, http.Handler) {
	t.Helper()
	cluster := actorstest.New(t)
	n1 := cluster.Start("n1", nil)
	time.Sleep(5 * time.Second)
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {})
	return cluster, n1, New(n1.Coordinator(), Options{Token: aToken, Metrics: metrics,
		Pprof: metrics})
}

func TestWithoutTheTokenNothingIsReadOrWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, h := guarded(t)
		paths := []string{"/", "/v1/status", "/v1/items/a", "/v1/events?follow", "/v1/tree",
			"/v1/openapi.json", "/metrics", "/debug/pprof/", "/config/", "/config/k", "/nothing",
			"//healthz", "/healthz/", "/x/../healthz", "/config/../healthz"}
		for name, headers := range map[string][]string{
			"none":            nil,
			"another":         bearer(aToken + "x"),
			"a part":          bearer(aToken[:8]),
			"empty":           bearer(""),
			"another scheme":  {"Authorization", "Digest " + aToken},
			"no scheme":       {"Authorization", aToken},
			"as the user":     basic(aToken, ""),
			"Basic, another":  basic("coordd", "x"),
			"Basic, no text":  {"Authorization", "Basic !"},
			"Bearer in Basic": {"Authorization", "Basic " + aToken},
		} {
			for _, path := range paths {
				for _, method := range []string{"GET", "HEAD", "PUT", "POST", "DELETE"} {
					w := testkit.Send(h, method, path, headers...)
					asked := w.Result().Header.Values("WWW-Authenticate")
					if w.Code != http.StatusUnauthorized || len(asked) != 2 {
						t.Errorf("%s: %s %s: %d %v", name, method, path, w.Code, asked)
					}
				}
			}
		}
		w := testkit.Send(h, "GET", "/v1/status")
		if !strings.HasPrefix(w.Body.String(), `{"error":`) {
			t.Errorf("it is no JSON: %s", w.Body)
		}
		// The name is looked at first: nobody is asked for the token under a name of others.
		w = testkit.Send(h, "GET", "/", "Host", "evil.example")
		if w.Code != http.StatusForbidden {
			t.Errorf("under another name: %d", w.Code)
		}
	})
}

func TestTheTokenIsTakenByBothSchemes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, _, h := guarded(t)
		for name, headers := range map[string][]string{
			"bearer":        bearer(aToken),
			"in lower case": {"Authorization", "bearer " + aToken},
			"basic":         basic("coordd", aToken),
			"any user":      basic("", aToken),
		} {
			for _, path := range []string{"/", "/v1/status", "/metrics", "/debug/pprof/",
				"/healthz", "/readyz"} {
				if w := testkit.Send(h, "GET", path, headers...); w.Code != http.StatusOK {
					t.Errorf("%s: %s: %d %s", name, path, w.Code, w.Body)
				}
			}
			l := listen(t, h, "/v1/events?follow", headers...)
			time.Sleep(time.Second)
			cluster.AddWork(strings.ReplaceAll(name, " ", "-"))
			time.Sleep(5 * time.Second)
			if events, _ := l.seen(); counted(events)["granted"] != 1 {
				t.Errorf("%s: it heard %v", name, events)
			}
			l.end()
		}
	})
}

// A browser sends the password with each request to the page, whoever's page makes it.
func TestAPageOfAnotherOriginWritesNothingThoughTheBrowserHasTheToken(t *testing.T) {
	p := serveGuardedConfigPage(t, aToken)
	put := func(more ...string) int {
		status, _, _ := p.raw("PUT /config/k HTTP/1.1\r\nHost: localhost\r\n" +
			strings.Join(append(more, "Content-Length: 5"), "\r\n") + "\r\n\r\nvalue")
		return status
	}
	with := "Authorization: " + basic("coordd", aToken)[1]
	for _, theirs := range []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site",
		"Origin: https://evil.example", "Origin: null"} {
		if status := put(with, theirs); status != http.StatusForbidden {
			t.Errorf("%s: %d", theirs, status)
		}
	}
	if status := put(); status != http.StatusUnauthorized {
		t.Errorf("without the token: %d", status)
	}
	if v, ok := p.in("k"); ok {
		t.Errorf("%q was written", v)
	}
	if status := put(with, "Sec-Fetch-Site: same-origin"); status != http.StatusNoContent {
		t.Errorf("the page itself: %d", status)
	}
}

func TestWhetherAMemberIsWellIsToldWithoutTheTokenAndWhyNotIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, n1, h := guarded(t)
		expect := func(path, want string, code int, headers ...string) {
			t.Helper()
			if w := testkit.Send(h, "GET", path, headers...); w.Code != code ||
				!strings.Contains(w.Body.String(), want) ||
				headers == nil && strings.Contains(w.Body.String(), "n1") {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
		expect("/healthz", "ok", 200)
		expect("/readyz", "ok", 200)
		expect("/readyz?verbose", "[+]work ok", 200)
		n1.CutOff()
		time.Sleep(time.Minute)
		expect("/healthz", "reason withheld: ask with the token", 503)
		expect("/readyz?verbose", "[-]lease failed: reason withheld", 503)
		expect("/healthz", "the lease of n1 has been over", 503, bearer(aToken)...)
		expect("/readyz", "[-]lease failed: the lease of n1", 503, bearer(aToken)...)
		n1.Mend()
	})
}

// A dispatcher has no token, and asks by the name that its client has asked it for.
func TestADispatcherIsToldThatThePageIsNoService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, h := guarded(t)
		for _, host := range []string{"10.0.0.1:8080", "jobs.example.org"} {
			w := testkit.Send(h, "POST", "/a/x", "Host", host, dispatch.HeaderItem, "a")
			if asked := w.Result().Header; w.Code != http.StatusBadGateway ||
				asked.Get(dispatch.HeaderReason) != dispatch.ReasonNoAddress ||
				asked.Get("WWW-Authenticate") != "" {
				t.Errorf("%s: %d %v", host, w.Code, asked)
			}
		}
	})
}

// So do metrics and profiles, which are there only if the host gives them, and a handler that is
// mounted below a path.
func TestAHandlerAnswersOnlyForItsOwnNames(t *testing.T) {
	consul := devconsul.New(devconsul.Config{Logger: slog.New(slog.DiscardHandler)})
	defer consul.Close()
	m, _ := soleMemberOf(t, consul.Client())
	some := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {})
	all := Options{Hosts: []string{"jobs.example.org"}, Metrics: some, Pprof: some}
	for _, c := range []struct {
		options            Options
		method, path, host string
		want               int
	}{
		{all, "GET", "", "jobs.example.org:443", 200},
		{all, "GET", "v1/status", "127.0.0.1:7070", 200},
		{all, "GET", "v1/status", "evil.example", 403},
		{all, "GET", "metrics", "localhost", 200},
		{all, "HEAD", "metrics", "localhost", 200},
		{all, "POST", "metrics", "localhost", 405},
		{all, "GET", "metrics", "evil.example", 403},
		{all, "GET", "debug/pprof/heap", "localhost", 200},
		{all, "POST", "debug/pprof/heap", "localhost", 405},
		{all, "GET", "debug/pprof/heap", "evil.example", 403},
		{Options{}, "GET", "metrics", "localhost", 404},
		{Options{}, "GET", "debug/pprof/heap", "localhost", 404},
		{Options{}, "GET", "", "jobs.example.org", 403},
	} {
		mux := http.NewServeMux()
		mux.Handle("/coordd/", http.StripPrefix("/coordd", New(m, c.options)))
		w := testkit.Send(mux, c.method, "/coordd/"+c.path, "Host", c.host)
		if w.Code != c.want || w.Code == 403 && !strings.Contains(w.Body.String(),
			"web.Options.Hosts") || w.Code == 200 && w.Header().Get(
			"X-Content-Type-Options") == "" {
			t.Errorf("%s %s for %s: %d %v %s", c.method, c.path, c.host, w.Code, w.Header(), w.Body)
		}
	}
}
