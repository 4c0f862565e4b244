package store_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/internal/reread"
	"github.com/coordd/coordd/internal/store"
	"github.com/hashicorp/consul/api"
)

// vault is a Consul that knows some tokens.
type vault struct {
	known map[string]bool
	asked []string // the tokens of the requests, each with what it wrote
}

func (v *vault) RoundTrip(r *http.Request) (*http.Response, error) {
	token, body := r.Header.Get("X-Consul-Token"), ""
	if r.Body != nil {
		b, _ := io.ReadAll(r.Body)
		body = string(b)
	}
	v.asked = append(v.asked, token+body)
	code, text := 200, `{"Results":[]}`
	if !v.known[token] {
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
		client, err := store.NewClient(&api.Config{HttpClient: &http.Client{Transport: v}})
		must(t, err)
		s, err := store.Open(store.Config{Client: client})
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
