package dispatch_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/actors/routing"
	"github.com/coordd/coordd/internal/testkit"
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
	w := newWorld(t, func(c *dispatch.Config) { c.Timeout = 3 * time.Second })
	add := func(id, address string) {
		w.table.members = append(w.table.members, routing.Member{ID: id, Address: address})
	}
	echo := func(rw http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		rw.Header().Set("Content-Type", "text/x")
		fmt.Fprintf(rw, "%s %s %s %s %q", r.Method, r.RequestURI, b,
			r.Header.Get(dispatch.HeaderMember), r.Header.Values(dispatch.HeaderGrant))
	}
	add("n1", w.service(echo))
	add("n2", w.service(func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(500)
		_, _ = rw.Write([]byte{0xff, 0})
	}))
	a := w.do("POST", "/*/stats?x=1", "hello", "Coordd-Grant", "99", "Connection", "X-Secret",
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
	add("n8", w.service(func(rw http.ResponseWriter, _ *http.Request) {
		upgrade(t, rw, func(_ net.Conn, in io.Reader) { _, _ = io.Copy(io.Discard, in) })
	}))
	a = w.do("GET", "/*/", "")
	g = gathered(t, a)
	if a.StatusCode != http.StatusMultiStatus || len(g.Answers) != 3 {
		t.Errorf("%s, %d answers", a.Status, len(g.Answers))
	}
	for id, want := range map[string]string{"n3": "cannot be connected to",
		"n4": "Config.Address host:port", "n5": "in time", "n6": "was lost",
		"n8": "goes on in protocol"} {
		if !strings.Contains(g.Missing[id], want) {
			t.Errorf("%s is missing because %q, want %q", id, g.Missing[id], want)
		}
	}
	if n7 := g.Answers["n7"]; !n7.Truncated || len(n7.Body) != 1<<20 {
		t.Errorf("truncated %v, %d bytes", n7.Truncated, len(n7.Body))
	}
	w.underWay("all places are free", 0)

	w.refused(w.do("POST", "/*/", strings.Repeat("x", 1<<20+1)), 413, dispatch.ReasonTooLarge)
	w.table.members = w.table.members[2:4]
	if a = w.do("GET", "/*/", ""); a.StatusCode != 503 || a.Header.Get("Retry-After") == "" ||
		len(gathered(t, a).Missing) != 2 {
		t.Errorf("nobody answered: %s %s", a.Status, a.body)
	}
	// A client that repeats what a member may have carried out has it carried out twice.
	w.table.members = append(w.table.members, routing.Member{ID: "n6", Address: w.service(lose)})
	if a = w.do("POST", "/*/", "x"); a.StatusCode != 503 || a.Header.Get("Retry-After") != "" ||
		len(gathered(t, a).Missing) != 3 {
		t.Errorf("one member was asked, and is lost: %s %v", a.Status, a.Header)
	}
	w.table.members = nil
	w.refused(w.do("GET", "/*/", ""), 503, dispatch.ReasonNoOwner)
}

// A broadcast waits for its slowest member as long as Timeout: others are asked meanwhile.
func TestAMemberThatHangsLeavesRoomForBroadcastsAndRequests(t *testing.T) {
	w := newWorld(t, func(c *dispatch.Config) {
		c.InFlight, c.PerMember, c.Timeout = 64, 8, 4*testkit.Patience
	})
	release := make(chan struct{})
	var asked atomic.Int64
	w.table.members = []routing.Member{
		{ID: "n1", Address: w.service(func(http.ResponseWriter, *http.Request) { <-release })},
		{ID: "n2", Address: w.service(func(rw http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			fmt.Fprint(rw, "here")
		})}}
	w.table.set("a", routing.Location{Member: "n2", Address: w.table.members[1].Address, Grant: 1})
	answers := make(chan answer)
	const broadcasts = 8
	for range broadcasts {
		go func() { answers <- w.do("GET", "/*/", "") }()
	}
	testkit.Eventually(t, "the other member has been asked", func() bool {
		return asked.Load() == broadcasts
	})
	if a := w.do("GET", "/a/", ""); a.body != "here" {
		t.Errorf("beside them: %s %s", a.Status, a.body)
	}
	a := w.do("GET", "/*/", "")
	if g := gathered(t, a); g.Answers["n2"].Body != "here" ||
		!strings.Contains(g.Missing["n1"], "8 requests to member n1 are under way") {
		t.Errorf("one more: %s %s", a.Status, a.body)
	}
	close(release)
	for range broadcasts {
		if a := <-answers; a.StatusCode != http.StatusOK {
			t.Errorf("%s %s", a.Status, a.body)
		}
	}
}
