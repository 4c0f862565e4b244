package store_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// twoDatacenters is the way to an agent of dc1 that passes on what is for dc2, as Consul's do: a
// session is on the agent's node, unless it names one.
func twoDatacenters(t *testing.T, here, there http.RoundTripper, denied bool) http.RoundTripper {
	return transport.Func(func(r *http.Request) (*http.Response, error) {
		q := r.URL.Query()
		switch {
		case denied && r.URL.Path == "/v1/agent/self":
			return transport.Answer(r, 403, "Permission denied"), nil
		case q.Get("dc") != "dc2" || strings.HasPrefix(r.URL.Path, "/v1/agent/"):
			q.Del("dc") // the agent's own ignore it
			r.URL.RawQuery = q.Encode()
			return here.RoundTrip(r)
		case r.URL.Path == "/v1/session/create":
			var body map[string]any
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				t.Fatal(err)
			}
			if body["Node"] == nil {
				body["Node"] = "here"
			}
			raw, _ := json.Marshal(body)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
		}
		return there.RoundTrip(r)
	})
}

func TestASessionInAnotherDatacenterIsOnAServersNodeThere(t *testing.T) {
	for _, denied := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			here := devconsul.New(devconsul.Config{NodeName: "here", Datacenter: "dc1"})
			defer here.Close()
			there := devconsul.New(devconsul.Config{NodeName: "there", Datacenter: "dc2"})
			defer there.Close()
			way := twoDatacenters(t, here.RoundTripper(), there.RoundTripper(), denied)
			client, err := api.NewClient(&api.Config{Address: "consul.test", Datacenter: "dc2",
				HttpClient: &http.Client{Transport: way}})
			must(t, err)
			s, err := store.Open(store.Config{Client: client})
			must(t, err)
			i := store.Instance{ID: "demo-n1", Service: "demo", CheckTTL: 6 * time.Second}
			must(t, s.RegisterInstance(t.Context(), i))
			options := store.SessionOptions{TTL: store.DefaultTTL, Check: i.CheckID()}
			_, _, err = s.CreateSession(t.Context(), options)
			if denied {
				wantKind(t, err, store.ErrDenied, false)
				wantText(t, err, "agent:read")
				return
			}
			wantKind(t, err, store.ErrUnreachable, false)
			if !errors.Is(err, store.ErrNoCheck) {
				t.Errorf("%v is no ErrNoCheck", err)
			}
			wantText(t, err, "datacenter is not the agent's own")
			options.Check = ""
			id, _, err := s.CreateSession(t.Context(), options)
			must(t, err)
			_, err = s.RenewSession(t.Context(), id, 0)
			must(t, err)
			found, _, err := there.Client().Session().Info(id, nil)
			if err != nil || found == nil || found.Node != "there" || len(found.NodeChecks) > 0 {
				t.Errorf("the session: %+v, %v", found, err)
			}
		})
	}
}
