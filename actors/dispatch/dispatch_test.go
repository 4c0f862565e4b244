package dispatch_test

import (
	"bufio"
	"errors"
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

func TestARequestGoesToTheOwnerWithItsGrantAndItsPathUnchanged(t *testing.T) {
	for _, c := range []struct{ item, path string }{
		{"device_1", "/device_1/"},
		{"device_1", "/device_1"},
		{"device_1", "/device_1/rest/of%2Fit?a=1;b=2&c=%zz"},
		{"a.b..c", "/a.b..c/x/..y//z/."},
		{"a b", "/a%20b/x"},
		{"a+b", "/a+b/x"},
		{"größe", "/gr%C3%B6%C3%9Fe/x"},
		{"*", "/%2A/x"},
		{"50%", "/50%25/x"},
	} {
		w := newWorld(t)
		var got *http.Request
		w.owner(c.item, "n1", 42, func(rw http.ResponseWriter, r *http.Request) {
			got = r
			rw.Header().Set(dispatch.HeaderMember, "somebody else")
			rw.WriteHeader(http.StatusTeapot)
			fmt.Fprint(rw, "short and stout")
		})
		a := w.do("PUT", c.path, "x")
		if a.StatusCode != http.StatusTeapot || a.body != "short and stout" ||
			a.Header.Get(dispatch.HeaderMember) != "n1" ||
			a.Header.Get(dispatch.HeaderGrant) != "42" {
			t.Errorf("%s: %s %v %q", c.path, a.Status, a.Header, a.body)
			continue
		}
		// The client escapes what must be; apart from that nothing has changed.
		if want := a.Request.URL.RequestURI(); got.RequestURI != want || got.Method != "PUT" {
			t.Errorf("%s %s arrived, want %s", got.Method, got.RequestURI, want)
		}
		if item, _, _ := dispatch.ParsePath("/" +
			got.Header.Get(dispatch.HeaderItem)); item != c.item && c.item != "*" {
			t.Errorf("%s: Coordd-Item is %q", c.path, got.Header.Get(dispatch.HeaderItem))
		}
		if got.Header.Get(dispatch.HeaderGrant) != "42" ||
			got.Header.Get(dispatch.HeaderMember) != "n1" {
			t.Errorf("%s: headers %v", c.path, got.Header)
		}
		if got.Header.Get("X-Forwarded-For") != "127.0.0.1" ||
			got.Header.Get("X-Forwarded-Host") != w.front.Listener.Addr().String() ||
			got.Header.Get("X-Forwarded-Proto") != "http" {
			t.Errorf("%s: headers %v", c.path, got.Header)
		}
	}
}

func TestWhatAClientForgesDoesNotArrive(t *testing.T) {
	w := newWorld(t)
	var got http.Header
	w.owner("a", "n1", 42, func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
	w.do("GET", "/a/", "",
		"Coordd-Grant", "99", "Coordd_Grant", "99", "coordd-grant", "99", "COORDD_MEMBER", "me",
		"Coordd-Item", "b", "Coordd-Whatever", "x",
		"Coordd.Grant", "99", "coordd~member", "me", "X.Forwarded|For", "6.6.6.6",
		"X-Forwarded-For", "6.6.6.6", "Forwarded", "for=6.6.6.6",
		// The names that Connection lists are taken out on the way: not the dispatcher's own.
		"Connection", "Coordd-Grant, X-Secret", "X-Secret", "s", "Te", "gzip",
		"Proxy-Authorization", "p", "X-Kept", "k")
	for name, want := range map[string]string{
		dispatch.HeaderGrant: "[42]", dispatch.HeaderMember: "[n1]", dispatch.HeaderItem: "[a]",
		"X-Kept": "[k]", "X-Forwarded-For": "[127.0.0.1]",
		"Coordd_grant": "[]", "Coordd_member": "[]", "Coordd-Whatever": "[]", "X-Secret": "[]",
		"Connection": "[]", "Te": "[]", "Proxy-Authorization": "[]",
	} {
		if fmt.Sprint(got.Values(name)) != want {
			t.Errorf("%s arrived as %v, want %s", name, got.Values(name), want)
		}
	}
	for name := range got {
		if strings.ContainsAny(name, "_.~|") {
			t.Errorf("%s arrived", name)
		}
	}
}

func TestWhatHasNoOwnerIsRefusedWithItsReason(t *testing.T) {
	w := newWorld(t, func(c *dispatch.Config) { c.Wait = 10 * time.Millisecond })
	w.table.set("orphan", routing.ErrNoOwner)
	w.table.set("moving", routing.ErrMoving)
	w.table.set("unread", routing.ErrNotReady)
	w.table.set("homeless", routing.Location{Member: "n1", Address: "a-host-name", Grant: 1})
	w.table.set("dead", routing.Location{Member: "n1", Address: nobody(t), Grant: 1})
	for path, want := range map[string]struct {
		status int
		reason string
	}{
		"/orphan/x":   {503, dispatch.ReasonNoOwner},
		"/moving/x":   {503, dispatch.ReasonMoving},
		"/unread/x":   {503, dispatch.ReasonNotReady},
		"/stranger/x": {404, dispatch.ReasonUnknown},
		"/a%2Fb/x":    {404, dispatch.ReasonUnknown},
		"/":           {404, dispatch.ReasonPath},
		"//x":         {404, dispatch.ReasonPath},
		"/homeless/x": {502, dispatch.ReasonNoAddress},
		"/dead/x":     {502, dispatch.ReasonUnreachable},
	} {
		w.refused(w.do("GET", path, ""), want.status, want.reason)
	}
	if a := w.do("GET", "/homeless/x", ""); !strings.Contains(a.body, "Config.Address host:port") {
		t.Errorf("it does not say what to do: %s", a.body)
	}
}

func TestARequestWaitsForAMoveToEnd(t *testing.T) {
	w := newWorld(t, func(c *dispatch.Config) { c.Wait = 2 * testkit.Patience })
	w.table.set("a", routing.ErrMoving)
	answers := make(chan answer)
	go func() { answers <- w.do("POST", "/a/", "the body") }()
	w.underWay("the request waits", 1)
	w.owner("a", "n2", 7, func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(rw, r.Body)
	})
	if a := <-answers; a.StatusCode != 200 || a.body != "the body" ||
		a.Header.Get(dispatch.HeaderGrant) != "7" {
		t.Errorf("%s %v %q", a.Status, a.Header, a.body)
	}
}

// What an owner took a part of is not sent again, unless net/http finds that an idle connection was
// closed.
func TestWhatNobodyHasTakenIsSentToTheNewOwner(t *testing.T) {
	const body = "the body"
	echo := func(rw http.ResponseWriter, r *http.Request) { _, _ = io.Copy(rw, r.Body) }
	for name, c := range map[string]struct {
		method, body string
		first        http.HandlerFunc // nil: it takes no connections
		want         int
		sent         int32 // to the first
	}{
		"no connection":                    {"POST", body, nil, 200, 0},
		"421, no body":                     {"DELETE", "", misdirect, 200, 1},
		"421, with a body":                 {"POST", body, misdirect, 503, 1},
		"lost":                             {"GET", "", lose, 502, 1},
		"lost, with a body":                {"POST", body, lose, 502, 1},
		"a 500 is an answer":               {"GET", "", fail, 500, 1},
		"421 that does not end, no body":   {"GET", "", misdirectForEver, 200, 1},
		"421 that does not end, with body": {"POST", body, misdirectForEver, 503, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *dispatch.Config) { c.Wait = testkit.Patience })
			second := routing.Location{Member: "n2", Address: w.service(echo), Grant: 2}
			var sent atomic.Int32
			first := nobody(t)
			if c.first != nil {
				first = w.service(func(rw http.ResponseWriter, r *http.Request) {
					sent.Add(1)
					w.table.set("a", second)
					c.first(rw, r)
				})
			} else {
				w.table.second = second // the next one who asks is told
			}
			w.table.set("a", routing.Location{Member: "n1", Address: first, Grant: 1})
			a := w.do(c.method, "/a/", c.body)
			if a.StatusCode != c.want || sent.Load() != c.sent || c.want == 200 && (a.body != c.body ||
				a.Header.Get(dispatch.HeaderMember) != "n2") {
				t.Errorf("%s %q from %s; it was sent %d times to the first", a.Status, a.body,
					a.Header.Get(dispatch.HeaderMember), sent.Load())
			}
		})
	}
}

// misdirect reads the body and refuses it.
func misdirect(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.WriteHeader(http.StatusMisdirectedRequest)
}

func misdirectForEver(w http.ResponseWriter, r *http.Request) {
	misdirect(w, r)
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

func lose(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	hangUp(w)
}

func fail(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }

func TestAMemberThatKeepsSayingNotMineIsA503(t *testing.T) {
	w := newWorld(t, func(c *dispatch.Config) { c.Wait = 200 * time.Millisecond })
	w.owner("a", "n1", 1, misdirect)
	w.refused(w.do("GET", "/a/", ""), 503, dispatch.ReasonMisdirected)
}

func TestBodiesAreStreamedAsTheyCome(t *testing.T) {
	w := newWorld(t)
	arrived := make(chan string)
	w.owner("a", "n1", 1, func(rw http.ResponseWriter, r *http.Request) {
		in := bufio.NewReader(r.Body)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				break
			}
			arrived <- strings.TrimSuffix(line, "\n")
		}
		for _, line := range []string{"one", "two"} {
			fmt.Fprintln(rw, line)
			rw.(http.Flusher).Flush()
			<-arrived // only once the client has it
		}
	})
	up, feed := io.Pipe()
	r, _ := http.NewRequest("POST", w.front.URL+"/a/", up)
	answers := make(chan *http.Response)
	go func() {
		resp, err := w.client.Do(r)
		if err != nil {
			t.Error(err)
		}
		answers <- resp
	}()
	big := strings.Repeat("y", 128<<10)
	for _, line := range []string{"first", big, "last"} {
		fmt.Fprintln(feed, line)
		if got := <-arrived; got != line { // before the next one is sent
			t.Fatalf("%d bytes arrived, beginning with %.20q", len(got), got)
		}
	}
	feed.Close()
	resp := <-answers
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for _, want := range []string{"one", "two"} {
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("%q came, want %q", lines.Text(), want)
		}
		arrived <- ""
	}
}

func TestASlowMemberDelaysNobodyElse(t *testing.T) {
	w := newWorld(t, func(c *dispatch.Config) {
		c.InFlight, c.PerMember, c.Timeout = 8, 4, 4*testkit.Patience
	})
	release := make(chan struct{})
	w.owner("slow", "n1", 1, func(http.ResponseWriter, *http.Request) { <-release })
	w.owner("quick", "n2", 2, func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(rw, "here")
	})
	answers := make(chan answer)
	for range 4 {
		go func() { answers <- w.do("GET", "/slow/", "") }()
	}
	testkit.Eventually(t, "all places of the slow member are taken", func() bool {
		_, to := w.d.InFlight("n1")
		return to == 4
	})
	w.refused(w.do("GET", "/slow/", ""), 503, dispatch.ReasonBusy)
	for range 20 {
		if a := w.do("GET", "/quick/", ""); a.body != "here" {
			t.Fatalf("%s %s", a.Status, a.body)
		}
	}
	// With all places taken everybody is told so at once.
	for _, id := range []string{"n3", "n4", "n5", "n6"} {
		w.owner(id, id, 1, func(http.ResponseWriter, *http.Request) { <-release })
		go func() { answers <- w.do("GET", "/"+id+"/", "") }()
	}
	w.underWay("all places are taken", 8)
	w.refused(w.do("GET", "/quick/", ""), 503, dispatch.ReasonBusy)
	close(release)
	for range 8 {
		if a := <-answers; a.StatusCode != 200 {
			t.Errorf("a slow request: %s", a.Status)
		}
	}
	w.idle("every place is free")
}

func TestAClientThatGoesEndsItsRequestAtTheService(t *testing.T) {
	w := newWorld(t)
	began, over := make(chan struct{}), make(chan struct{})
	w.owner("a", "n1", 1, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(began)
		<-r.Context().Done()
		close(over)
	})
	conn, err := net.Dial("tcp", w.front.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST /a/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx")
	<-began
	conn.Close()
	select {
	case <-over:
	case <-time.After(testkit.Patience):
		t.Fatal("the service still works on it")
	}
	// And one that waits for a move stops waiting.
	w.table.set("moving", routing.ErrMoving)
	conn, err = net.Dial("tcp", w.front.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET /moving/ HTTP/1.1\r\nHost: x\r\n\r\n")
	w.underWay("it waits", 1)
	conn.Close()
	w.underWay("it waits no more", 0)
}

func TestNothingLastsForEver(t *testing.T) {
	hang := func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	t.Run("no answer begins", func(t *testing.T) {
		w := newWorld(t, func(c *dispatch.Config) { c.Timeout = 50 * time.Millisecond })
		w.owner("a", "n1", 1, hang)
		w.refused(w.do("GET", "/a/", ""), 504, dispatch.ReasonTimeout)
	})
	t.Run("an answer goes silent", func(t *testing.T) {
		w := newWorld(t, func(c *dispatch.Config) {
			c.Timeout, c.Idle = 3*time.Second, 200*time.Millisecond
		})
		w.owner("a", "n1", 1, func(rw http.ResponseWriter, r *http.Request) {
			rw.(http.Flusher).Flush()
			hang(rw, r)
		})
		resp, err := w.client.Get(w.front.URL + "/a/")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("the answer ended with %v", err)
		}
	})
	t.Run("a member takes nothing of a body", func(t *testing.T) {
		w := newWorld(t, func(c *dispatch.Config) {
			c.Timeout, c.Idle = 300*time.Millisecond, 300*time.Millisecond
		})
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close() // nobody accepts: the kernel takes what its buffers hold
		w.table.set("a", routing.Location{Member: "n1", Address: ln.Addr().String(), Grant: 1})
		// Whether its write or its read ends first is by chance.
		if a := w.do("POST", "/a/", strings.Repeat("x", 64<<20)); a.StatusCode != 504 &&
			a.Header.Get(dispatch.HeaderReason) != dispatch.ReasonLost {
			t.Errorf("%s %s", a.Status, a.body)
		}
		w.idle("its place is free")
	})
}

func TestARequestThatComesBackIsRefused(t *testing.T) {
	w := newWorld(t)
	w.table.set("a", routing.Location{Member: "n1", Address: w.front.Listener.Addr().String(),
		Grant: 1})
	w.refused(w.do("GET", "/a/", ""), 508, dispatch.ReasonLoop)
}

func TestSettingsThatCannotWorkAreRefusedAllAtOnce(t *testing.T) {
	_, err := dispatch.New(dispatch.Config{Timeout: -1, Idle: -1, InFlight: 4, PerMember: 5})
	for _, want := range []string{"Locator", "timeout", "idle", "per member 5: give 1 to 4"} {
		if !errors.Is(err, dispatch.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %q", err, want)
		}
	}
}
