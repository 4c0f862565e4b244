package dispatch_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/actors/routing"
	"github.com/coordd/coordd/internal/testkit"
)

// What a service answers arrives as it is: nothing is followed, unpacked, or answered on its
// behalf.
func TestAnAnswerArrivesAsItIs(t *testing.T) {
	const packed = "\x1f\x8bnot really gzip"
	for name, c := range map[string]struct {
		method, path string
		serve        http.HandlerFunc
		want         func(answer) bool
	}{
		"a redirect is the client's": {"GET", "/a/x", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere/y", http.StatusTemporaryRedirect)
		}, func(a answer) bool {
			return a.StatusCode == 307 &&
				a.Header.Get("Location") == "/elsewhere/y"
		}},
		"packed stays packed": {"GET", "/a/x", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			fmt.Fprint(w, packed)
		}, func(a answer) bool {
			return a.body == packed &&
				a.Header.Get("Content-Encoding") == "gzip"
		}},
		"nobody asks for packing but the client": {"GET", "/a/x", func(w http.ResponseWriter,
			r *http.Request) {
			fmt.Fprint(w, r.Header.Values("Accept-Encoding"))
		}, func(a answer) bool { return a.body == "[]" }},
		"HEAD has the length and no body": {"HEAD", "/a/x", func(w http.ResponseWriter,
			r *http.Request) {
			w.Header().Set("Content-Length", "12345")
		}, func(a answer) bool { return a.ContentLength == 12345 && a.body == "" }},
		"OPTIONS is the service's": {"OPTIONS", "/a/x", func(w http.ResponseWriter,
			r *http.Request) {
			w.Header().Set("Allow", "GET")
			w.WriteHeader(204)
		}, func(a answer) bool { return a.StatusCode == 204 && a.Header.Get("Allow") == "GET" }},
		"a method of one's own": {"PURGE", "/a/x", func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, r.Method)
		}, func(a answer) bool { return a.body == "PURGE" }},
		"trailers of the answer": {"GET", "/a/x", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			fmt.Fprint(w, "body")
			w.Header().Set("X-Sum", "7")
		}, func(a answer) bool { return a.body == "body" && a.Trailer.Get("X-Sum") == "7" }},
		"two headers of a name": {"GET", "/a/x", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Add("Set-Cookie", "a=1")
			w.Header().Add("Set-Cookie", "b=2")
		}, func(a answer) bool { return fmt.Sprint(a.Header.Values("Set-Cookie")) == "[a=1 b=2]" }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.client.CheckRedirect = func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			}
			w.owner("a", "n1", 1, c.serve)
			if a := w.do(c.method, c.path, ""); !c.want(a) {
				t.Errorf("%s %v %v %q", a.Status, a.Header, a.Trailer, a.body)
			}
		})
	}
}

func TestAClientOfTheOldKindIsAnswered(t *testing.T) {
	w := newWorld(t)
	w.owner("a", "n1", 42, func(rw http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(rw).Flush() // of no known length
		fmt.Fprint(rw, r.Header.Get(dispatch.HeaderToken))
	})
	conn, in := w.dial()
	fmt.Fprint(conn, "GET /a/ HTTP/1.0\r\nCoordd-Token: 99\r\n\r\n")
	all, err := io.ReadAll(in)
	if err != nil || !strings.HasPrefix(string(all), "HTTP/1.0 200") ||
		!strings.HasSuffix(string(all), "\r\n\r\n42") {
		t.Errorf("%q %v", all, err)
	}
}

// A body that waits to be asked for is asked for by whoever takes it, and not by one who does not
// own the item.
func TestABodyThatWaitsToBeAskedForGoesToTheOwner(t *testing.T) {
	w := newWorld(t, func(c *dispatch.Config) { c.Wait = testkit.Patience })
	second := w.service(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(rw, r.Body)
	})
	w.owner("a", "n1", 1, func(rw http.ResponseWriter, _ *http.Request) {
		w.table.set("a", routing.Location{Member: "n2", Address: second, Token: 2})
		rw.WriteHeader(http.StatusMisdirectedRequest)
	})
	conn, in := w.dial()
	fmt.Fprint(conn,
		"PUT /a/ HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
	line, err := in.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		t.Fatalf("%q %v", line, err)
	}
	if blank, err := in.ReadString('\n'); err != nil || blank != "\r\n" {
		t.Fatalf("%q %v", blank, err)
	}
	fmt.Fprint(conn, "hello")
	resp, err := continued(in)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "hello" ||
		resp.Header.Get(dispatch.HeaderMember) != "n2" {
		t.Errorf("%s %q %v", resp.Status, b, err)
	}
}

func TestAnUpgradeWaitsForAMoveLikeAnyRequest(t *testing.T) {
	w := newWorld(t, func(c *dispatch.Config) { c.Wait = 2 * testkit.Patience })
	w.table.set("a", routing.ErrMoving)
	conn, in := w.dial()
	fmt.Fprint(conn,
		"GET /a/socket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	w.underWay("the request waits", 1)
	misdirected := w.service(misdirect(false))
	w.table.set("a", routing.Location{Member: "n1", Address: misdirected, Token: 1})
	w.owner("a", "n2", 2, echo(t))
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != 101 || resp.Header.Get(dispatch.HeaderMember) != "n2" {
		t.Fatalf("%v %v", resp, err)
	}
	fmt.Fprint(conn, "hello\n")
	if line, err := in.ReadString('\n'); err != nil || line != "hello\n" {
		t.Errorf("%q %v", line, err)
	}
}

func TestWhatIsUnderWayWhenTheServerStopsIsAnswered(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	began := make(chan struct{}, 2)
	w.owner("a", "n1", 1, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		began <- struct{}{}
		<-r.Context().Done()
	})
	front := httptest.NewUnstartedServer(w.d)
	front.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	front.Start()
	defer front.Close()
	w.front.URL = front.URL // ask this one
	sent, waiting := make(chan answer), make(chan answer)
	w.table.set("moving", routing.ErrMoving)
	go func() { sent <- w.do("POST", "/a/", "x") }()
	go func() { waiting <- w.do("POST", "/moving/", "x") }()
	<-began
	w.underWay("both are under way", 2)
	cancel(dispatch.ErrStopping)
	w.refused(<-sent, 502, dispatch.ReasonLost)
	w.refused(<-waiting, 503, dispatch.ReasonNotReady)
}

// waitingLocator does not know the members.
type waitingLocator struct {
	dispatch.Locator
	asked chan struct{}
}

func (l waitingLocator) Members(ctx context.Context) ([]routing.Member, error) {
	l.asked <- struct{}{}
	<-ctx.Done()
	return nil, ctx.Err()
}

// A broadcast is told of a stop as well: also one that waits for the list of members, or for its
// own body. So is one whose time is over.
func TestABroadcastThatIsUnderWayWhenTheServerStopsIsAnswered(t *testing.T) {
	for name, c := range map[string]struct {
		request string
		unknown bool          // the members
		within  time.Duration // 0: it has any time, and the server stops
		status  int
		reason  string
	}{
		"it was sent":          {"1\r\n\r\nx", false, 0, 502, dispatch.ReasonLost},
		"nobody was asked":     {"1\r\n\r\nx", true, 0, 503, dispatch.ReasonNotReady},
		"its body is not here": {"2\r\n\r\nx", false, 0, 503, dispatch.ReasonNotReady},
		"its time is over": {"1\r\n\r\nx", true, 50 * time.Millisecond, 504,
			dispatch.ReasonTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			asked := make(chan struct{}, 1)
			w := newWorld(t, func(cfg *dispatch.Config) {
				cfg.Wait, cfg.Timeout = 2*testkit.Patience, 2*testkit.Patience
				if c.unknown {
					cfg.Locator = waitingLocator{cfg.Locator, asked}
				}
			})
			w.table.members = []routing.Member{{ID: "n1", Address: w.service(
				func(_ http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					asked <- struct{}{}
					<-r.Context().Done()
				})}}
			ctx, end := context.WithCancelCause(t.Context())
			defer end(nil)
			front := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter,
				r *http.Request) {
				if c.within > 0 {
					limited, over := context.WithTimeout(r.Context(), c.within)
					defer over()
					r = r.WithContext(limited)
				}
				w.d.ServeHTTP(rw, r)
			}))
			front.Config.BaseContext = func(net.Listener) context.Context { return ctx }
			front.Start()
			defer front.Close()
			conn, err := net.Dial("tcp", front.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(testkit.Patience / 12))
			fmt.Fprint(conn, "POST /*/ HTTP/1.1\r\nHost: x\r\nContent-Length: ", c.request)
			w.underWay("it is under way", 1)
			if c.request[0] == '1' {
				<-asked
			}
			if c.within == 0 {
				end(dispatch.ErrStopping)
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatalf("it was cut off: %v", err)
			}
			body, _ := io.ReadAll(resp.Body)
			w.refused(answer{resp, string(body)}, c.status, c.reason)
		})
	}
}

// However it ends, a request gives its places back.
func TestEveryEndOfARequestFreesItsPlaces(t *testing.T) {
	w := newWorld(t)
	half := func(rw http.ResponseWriter, _ *http.Request) {
		conn, buf, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			return
		}
		fmt.Fprint(buf, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
		buf.Flush()
		conn.Close()
	}
	w.owner("half", "n1", 1, half)
	w.owner("garbage", "n1", 1, func(rw http.ResponseWriter, _ *http.Request) {
		if conn, _, err := http.NewResponseController(rw).Hijack(); err == nil {
			fmt.Fprint(conn, "no HTTP at all\r\n\r\n")
			conn.Close()
		}
	})
	w.owner("switches", "n1", 1, func(rw http.ResponseWriter, _ *http.Request) {
		if conn, _, err := http.NewResponseController(rw).Hijack(); err == nil {
			fmt.Fprint(conn,
				"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+
					"unasked\r\n\r\n")
			conn.Close()
		}
	})
	for _, path := range []string{"/half/", "/garbage/", "/switches/", "/unknown/", "/"} {
		for _, method := range []string{"GET", "POST"} {
			conn, in := w.dial()
			fmt.Fprintf(conn,
				"%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx",
				method, path)
			all, _ := io.ReadAll(bufio.NewReader(in))
			if path == "/half/" && strings.Count(string(all), "half") != 1 {
				t.Errorf("%s %s: %q", method, path, all)
			}
			if path != "/half/" && strings.HasPrefix(string(all), "HTTP/1.1 200") {
				t.Errorf("%s %s: %q", method, path, all)
			}
			conn.Close()
			w.idle("its places are free")
		}
	}
}

// A client that tells the dispatcher's refusals by their Coordd-Reason finds none that a service
// has made up: neither in hints, nor in the answer, nor in trailers, announced or not.
func TestAServiceSaysNothingInTheNameOfTheDispatcher(t *testing.T) {
	w := newWorld(t)
	w.owner("a", "n1", 1, func(rw http.ResponseWriter, _ *http.Request) {
		h := rw.Header()
		for _, name := range []string{"Coordd-Reason", "coordd_reason"} {
			h[name] = []string{"busy"}
		}
		h.Set("Link", "</x>; rel=preload")
		rw.WriteHeader(http.StatusEarlyHints)
		h.Set("Trailer", "Coordd-Reason, X-Sum")
		fmt.Fprint(rw, "body")
		_ = http.NewResponseController(rw).Flush()
		h.Set("X-Sum", "7")
		h.Set(http.TrailerPrefix+"Coordd-Item", "busy")
		h.Set(http.TrailerPrefix+"X-More", "8")
	})
	conn, in := w.dial()
	fmt.Fprint(conn, "GET /a/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	all, err := io.ReadAll(in)
	if text := string(all); err != nil || strings.Contains(text, "busy") ||
		strings.Contains(text, "Reason") || strings.Count(text, "Link: </x>") != 2 ||
		!strings.Contains(text, "X-Sum: 7\r\n") || !strings.Contains(text, "X-More: 8\r\n") {
		t.Errorf("%v %s", err, text)
	}
}
