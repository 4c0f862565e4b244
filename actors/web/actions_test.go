package web_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/actors/web"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/testkit"
)

// trials offers to kill n1, and whatever else fails.
type trials struct{ done []string }

func (t *trials) Offered(operator.Status) []web.MemberActions {
	return []web.MemberActions{{Member: "n1", State: "frozen", Actions: []web.Action{
		{Name: "kill", Label: "Kill", Hint: "It is gone."}, {Name: "fail", Label: "Fail"}}}}
}

func (t *trials) Do(_ context.Context, member, action string) error {
	t.done = append(t.done, action+" "+member)
	if action == "fail" {
		return errors.New("it cannot be:\n\x1b[31mstart it")
	}
	return nil
}

// observed returns the handler of a process without members.
func observed(t *testing.T, o web.Options) http.Handler {
	t.Helper()
	client, stop := devconsul.Quiet()
	t.Cleanup(stop)
	op, err := operator.New(client, "demo")
	if err != nil {
		t.Fatal(err)
	}
	return web.NewObserver(op, o)
}

// answer is what the handler says under the address that dev's page has.
func answer(h http.Handler, method, path string, headers ...string) *httptest.ResponseRecorder {
	return testkit.Send(h, method, path, append([]string{"Host", "127.0.0.1:7070"}, headers...)...)
}

func TestActionsAreCarriedOutOnlyWhenTheyAreOfferedAndOnlyForThePageItself(t *testing.T) {
	const kill = "/v1/members/n1/actions/kill"
	for name, c := range map[string]struct {
		method, path string
		headers      []string
		want         int
		done         bool
	}{
		"the page's own button": {"POST", kill, []string{"Sec-Fetch-Site", "same-origin", "Origin",
			"http://127.0.0.1:7070"}, 204, true},
		"a program":              {"POST", kill, nil, 204, true},
		"an older browser's":     {"POST", kill, []string{"Origin", "http://127.0.0.1:7070"}, 204, true},
		"another site":           {"POST", kill, []string{"Sec-Fetch-Site", "cross-site"}, 403, false},
		"another port":           {"POST", kill, []string{"Sec-Fetch-Site", "same-site"}, 403, false},
		"another, older browser": {"POST", kill, []string{"Origin", "http://evil.example"}, 403, false},
		"no origin of its own":   {"POST", kill, []string{"Origin", "null"}, 403, false},
		"a rebound name": {"POST", kill, []string{"Host", "evil.example", "Origin",
			"http://evil.example", "Sec-Fetch-Site", "same-origin"}, 403, false},
		"a link":             {"GET", kill, nil, 404, false},
		"another method":     {"PUT", kill, nil, 405, false},
		"not offered now":    {"POST", "/v1/members/n1/actions/thaw", nil, 409, false},
		"an unknown member":  {"POST", "/v1/members/n2/actions/kill", nil, 404, false},
		"one that fails":     {"POST", "/v1/members/n1/actions/fail", nil, 503, true},
		"a list from afar":   {"GET", "/v1/actions", []string{"Host", "evil.example"}, 403, false},
		"a list that is not": {"POST", "/v1/actions", nil, 405, false},
	} {
		t.Run(name, func(t *testing.T) {
			host := &trials{}
			w := answer(observed(t, web.Options{Actions: host}), c.method, c.path, c.headers...)
			if w.Code != c.want || (len(host.done) > 0) != c.done {
				t.Errorf("%d %s, want %d; done: %v", w.Code, w.Body, c.want, host.done)
			}
			if strings.ContainsAny(strings.TrimSuffix(w.Body.String(), "\n"), "\n\x1b") {
				t.Errorf("the answer is not one line: %q", w.Body)
			}
		})
	}
}

func TestOnlyAHostThatOffersActionsHasThem(t *testing.T) {
	host := &trials{}
	with, without := observed(t, web.Options{Actions: host}), observed(t, web.Options{})
	if w := answer(with, "GET", "/v1/actions"); w.Code != 200 ||
		w.Body.String() != `[{"member":"n1","state":"frozen","actions":[{"name":"kill",`+
			`"label":"Kill","hint":"It is gone."},{"name":"fail","label":"Fail","hint":""}]}]` {
		t.Errorf("offered: %d %s", w.Code, w.Body)
	}
	if w := answer(without, "GET", "/v1/actions"); w.Code != http.StatusNotFound {
		t.Errorf("without actions: %d %s", w.Code, w.Body)
	}
	w := answer(without, "POST", "/v1/members/n1/actions/kill")
	if !slices.Contains([]int{404, 405}, w.Code) {
		t.Errorf("without actions: %d %s", w.Code, w.Body)
	}
	const asks = "<body class=\"empty\" data-acts>"
	if page := answer(with, "GET", "/").Body.String(); !strings.Contains(page, asks) {
		t.Error("the page with actions does not ask for them")
	}
	if page := answer(without, "GET", "/").Body.String(); strings.Contains(page, asks) {
		t.Error("the page without actions asks for them")
	}
}

func TestAnObserverWithoutMembersIsHealthyAndShowsTheService(t *testing.T) {
	h := observed(t, web.Options{})
	for _, path := range []string{"/healthz", "/readyz"} {
		if w := answer(h, "GET", path); w.Code != http.StatusOK || w.Body.String() != "ok\n" {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	for _, path := range []string{"/v1/status", "/v1/tree"} {
		if w := answer(h, "GET", path); w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := answer(h, "GET", "/config/x"); w.Code != http.StatusNotImplemented {
		t.Errorf("the configuration of nobody: %d %s", w.Code, w.Body)
	}
}
