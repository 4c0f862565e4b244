package store_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/internal/reread"
	"github.com/coordd/coordd/internal/store"
	"github.com/hashicorp/consul/api"
)

// vault is a Consul that knows some tokens.
type vault struct {
	mu       sync.Mutex
	known    map[string]bool
	asked    []string // the tokens of the requests, each with what it wrote
	starting int      // the status that it gives while it starts
}

func (v *vault) client(t *testing.T) *api.Client {
	client, err := store.NewClient(&api.Config{HttpClient: &http.Client{Transport: v}})
	must(t, err)
	return client
}

func (v *vault) knows(tokens ...string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.known = map[string]bool{}
	for _, token := range tokens {
		v.known[token] = true
	}
}

func (v *vault) RoundTrip(r *http.Request) (*http.Response, error) {
	token, body := r.Header.Get("X-Consul-Token"), ""
	if r.Body != nil {
		b, _ := io.ReadAll(r.Body)
		body = string(b)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.asked = append(v.asked, token+body)
	known := v.known[token]
	if known && r.URL.Path != "/v1/txn" {
		v.mu.Unlock()
		time.Sleep(time.Minute)
		v.mu.Lock()
		known = r.URL.Path == "/poll" || v.known[token]
	}
	code, text := 200, `{"Results":[]}`
	switch {
	case v.starting != 0:
		code, text = v.starting, "ACL system must be bootstrapped before making any: ACL not found"
	case !known:
		code, text = 403, "ACL not found"
	}
	return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader(text)),
		Header: http.Header{"X-Consul-Index": {"7"}, "X-Consul-Knownleader": {"true"}}}, nil
}

func TestATokenThatConsulDoesNotKnowIsReadAnewAndTheOneBeforeGoesOn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) { must(t, os.WriteFile(file, []byte(text), 0o600)) }
	write("old\n")
	t.Setenv(api.HTTPTokenFileEnvName, file)
	synctest.Test(t, func(t *testing.T) {
		v := &vault{known: map[string]bool{"old": true}}
		s, err := store.Open(store.Config{Client: v.client(t)})
		must(t, err)
		for _, step := range []struct {
			does string
			do   func()
			want string // the tokens that are tried, in their order
		}{
			{"nothing has changed", func() {}, "old"},
			{"replaced, and the first one goes", func() {
				write("new")
				v.known = map[string]bool{"new": true}
				time.Sleep(reread.Every)
			}, "new"},
			{"and so on", func() {}, "new"},
			{"half written", func() { write("n"); time.Sleep(reread.Every) }, "n new"},
			{"and still", func() {}, "n new"},
			{"a token of which Consul learns later",
				func() { write("next"); time.Sleep(reread.Every) }, "next new"},
			{"it has learned of it", func() { v.known["next"] = true }, "next"},
			{"emptied", func() { write(""); time.Sleep(reread.Every) }, "next"},
			{"a bad one while Consul starts", func() {
				v.starting = 403
				write("bad")
				time.Sleep(reread.Every)
			}, "bad"},
			{"and has no leader", func() { v.starting = 500 }, "bad"},
			{"it has started", func() { v.starting = 0 }, "bad next"},
			{"and the good one is back", func() { write("next"); time.Sleep(reread.Every) }, "next"},
			{"nobody is known any more", func() { clear(v.known) }, "next"},
		} {
			step.do()
			_, err := s.Txn(t.Context(), store.Set("k", nil, 0))
			var tokens []string
			for _, asked := range v.asked {
				token, body, sent := strings.Cut(asked, "[")
				if tokens = append(tokens, token); !sent || !strings.Contains(body, `"k"`) {
					t.Errorf("%s: it was asked %q", step.does, asked)
				}
			}
			v.asked = nil
			if got := strings.Join(tokens, " "); got != step.want {
				t.Errorf("%s: it tried %s, want %s", step.does, got, step.want)
			}
			if unknown := len(v.known) == 0; unknown != errors.Is(err, store.ErrUnknownToken) ||
				unknown && (!errors.Is(err, store.ErrDenied) || store.OutcomeUnknown(err) ||
					store.LacksRights(err) || strings.Contains(err.Error(), "needs")) {
				t.Errorf("%s: %v", step.does, err)
			}
		}
	})
}

// Consul answers a long poll as if its token, deleted meanwhile, were there, or refuses it. Neither
// counts for the tokens that came later, and what one client has learned the others know.
func TestAnAnswerCountsForTheTokenOfItsOwnRequest(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(file, []byte("1"), 0o600))
	t.Setenv(api.HTTPTokenFileEnvName, file)
	synctest.Test(t, func(t *testing.T) {
		v := &vault{known: map[string]bool{"1": true}}
		busy, idle := v.client(t), v.client(t)
		ask := func(c *api.Client, path string) {
			if _, err := c.Raw().Query(path, new(any), nil); err != nil {
				t.Errorf("%s after %v: %v", path, v.asked, err)
			}
		}
		poll := func() {
			go ask(busy, "/poll")
			go ask(busy, "/refused at its end")
			synctest.Wait()
		}
		replace := func(now string, known ...string) {
			v.knows(known...)
			must(t, os.WriteFile(file, []byte(now), 0o600))
			time.Sleep(2 * reread.Every)
		}
		poll()
		replace("2", "1", "2")
		ask(busy, "/v1/txn")
		replace("x", "2")
		ask(idle, "/v1/txn")
		time.Sleep(3 * time.Minute) // the polls end, also one that was sent again
		ask(busy, "/v1/txn")
		ask(v.client(t), "/v1/txn")
		replace("3", "2", "3")
		ask(busy, "/v1/txn")
		replace("y", "3")
		ask(idle, "/v1/txn")
		replace("4", "4")
		ask(busy, "/v1/txn")
		poll()
		replace("5", "5") // and nothing but the polls asks
		time.Sleep(3 * time.Minute)
	})
}

// What cannot be a token or a certificate makes no client, and the variable is named.
func TestAFileThatHoldsNoTokenMakesNoClient(t *testing.T) {
	dir := t.TempDir()
	for text, says := range map[string]string{"": "a token is one line", "a\nb": "one line",
		"t\x00": "one line"} {
		file := filepath.Join(dir, "token")
		must(t, os.WriteFile(file, []byte(text), 0o600))
		t.Setenv(api.HTTPTokenFileEnvName, file)
		if _, err := store.ClientOr(nil); err == nil || !strings.Contains(err.Error(), says) ||
			!strings.Contains(err.Error(), api.HTTPTokenFileEnvName) {
			t.Errorf("%q: %v", text, err)
		}
	}
	t.Setenv(api.HTTPTokenFileEnvName, filepath.Join(dir, "none"))
	if _, err := store.ClientOr(nil); err == nil {
		t.Error("a file that is not there")
	}
}
