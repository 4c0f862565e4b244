package dispatch_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/actors/routing"
)

func gathered(t *testing.T, a answer) dispatch.Gathered {
	t.Helper()
	var g dispatch.Gathered
	if err := json.Unmarshal([]byte(a.body), &g); err != nil {
		t.Fatalf("%s: %v in %s", a.Status, err, a.body)
	}
	return g
}

func TestABroadcastGathersEveryAnswerAndSaysWhoIsMissing(t *testing.T) {
	w := newWorld(t, func(c *dispatch.Config) { c.Timeout = 5 * time.Second })
	add := func(id, address string) {
		w.table.members = append(w.table.members, routing.Member{ID: id, Address: address})
	}
	echo := func(rw http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		rw.Header().Set("Content-Type", "text/x")
		fmt.Fprintf(rw, "%s %s %s %s %q", r.Method, r.RequestURI, b,
			r.Header.Get(dispatch.HeaderMember), r.Header.Values(dispatch.HeaderToken))
	}
	add("n1", w.service(echo))
	add("n2", w.service(func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(500)
		_, _ = rw.Write([]byte{0xff, 0})
	}))
	a := w.do("POST", "/*/stats?x=1", "hello", "Coordd-Token", "99", "Connection", "X-Secret",
		"X-Secret", "s")
	g := gathered(t, a)
	if a.StatusCode != 200 || len(g.Missing) != 0 || len(g.Answers) != 2 {
		t.Fatalf("%s %s", a.Status, a.body)
	}
	if want := (dispatch.Answer{Status: 200, ContentType: "text/x",
		Body: "POST /*/stats?x=1 hello n1 []"}); g.Answers["n1"] != want {
		t.Errorf("%+v", g.Answers["n1"])
	}
	if n2 := g.Answers["n2"]; n2.Status != 500 || !n2.Base64 || n2.Body != "/wA=" {
		t.Errorf("%+v", n2)
	}

	add("n3", nobody(t))
	add("n4", "a-host-name")
	add("n5", w.service(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	add("n6", w.service(lose))
	add("n7", w.service(func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(rw, strings.Repeat("x", 1<<20+1))
	}))
	a = w.do("GET", "/*/", "")
	g = gathered(t, a)
	if a.StatusCode != http.StatusMultiStatus || len(g.Answers) != 3 {
		t.Errorf("%s, %d answers", a.Status, len(g.Answers))
	}
	for id, want := range map[string]string{"n3": "cannot be connected to",
		"n4": "--address host:port", "n5": "in time", "n6": "was lost"} {
		if !strings.Contains(g.Missing[id], want) {
			t.Errorf("%s is missing because %q, want %q", id, g.Missing[id], want)
		}
	}
	if n7 := g.Answers["n7"]; !n7.Truncated || len(n7.Body) != 1<<20 {
		t.Errorf("truncated %v, %d bytes", n7.Truncated, len(n7.Body))
	}
	if all, to := w.d.InFlight("n5"); to != 0 {
		t.Errorf("%d and %d still under way", all, to)
	}

	w.refused(w.do("POST", "/*/", strings.Repeat("x", 1<<20+1)), 413, dispatch.ReasonTooLarge)
	w.table.members = w.table.members[2:4]
	if a = w.do("GET", "/*/", ""); a.StatusCode != 503 || a.Header.Get("Retry-After") == "" ||
		len(gathered(t, a).Missing) != 2 {
		t.Errorf("nobody answered: %s %s", a.Status, a.body)
	}
	// Whoever repeats a request that a member may have carried out has it carried out twice.
	w.table.members = append(w.table.members, routing.Member{ID: "n6", Address: w.service(lose)})
	for method, after := range map[string]string{"GET": "1", "POST": ""} {
		if a = w.do(method, "/*/", "x"); a.StatusCode != 503 ||
			a.Header.Get("Retry-After") != after || len(gathered(t, a).Missing) != 3 {
			t.Errorf("%s: one member was asked, and is lost: %s %v", method, a.Status, a.Header)
		}
	}
	w.table.members = nil
	w.refused(w.do("GET", "/*/", ""), 503, dispatch.ReasonNoOwner)
}
