package dispatch_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/actors/routing"
	"github.com/coordd/coordd/internal/httpserver"
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

// A body that waits to be asked for is asked for by the owner. One who is not has nothing of it.
func TestABodyThatWaitsToBeAskedForGoesToTheOwner(t *testing.T) {
	w := newWorld(t, func(c *dispatch.Config) { c.Wait = testkit.Patience })
	second := w.service(func(rw http.ResponseWriter, r *http.Request) { _, _ = io.Copy(rw, r.Body) })
	w.owner("a", "n1", 1, func(rw http.ResponseWriter, _ *http.Request) {
		w.table.set("a", routing.Location{Member: "n2", Address: second, Grant: 2})
		rw.WriteHeader(http.StatusMisdirectedRequest)
	})
	conn, in := w.dial()
	fmt.Fprint(conn,
		"PUT /a/ HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
	answers(t, in, http.StatusContinue)
	fmt.Fprint(conn, "hello")
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "hello" ||
		resp.Header.Get(dispatch.HeaderMember) != "n2" {
		t.Errorf("%s %q %v", resp.Status, b, err)
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

// Hints (1xx) are for one connection. A client tells the dispatcher's refusals by Coordd-Reason: a
// service cannot make one up.
func TestAClientGetsOneAnswerAndNothingInTheNameOfTheDispatcher(t *testing.T) {
	w := newWorld(t)
	w.owner("a", "n1", 1, func(rw http.ResponseWriter, _ *http.Request) {
		h := rw.Header()
		for _, name := range []string{"Coordd-Reason", "coordd_reason"} {
			h[name] = []string{"busy"}
		}
		h.Set("Link", "</x>; rel=preload")
		rw.WriteHeader(http.StatusEarlyHints)
		fmt.Fprint(rw, "body")
	})
	for _, version := range []string{"1.0", "1.1"} {
		conn, in := w.dial()
		fmt.Fprintf(conn, "GET /a/ HTTP/%s\r\nHost: x\r\nConnection: close\r\n\r\n", version)
		all, err := io.ReadAll(in)
		if text := string(all); err != nil || strings.Contains(text, "busy") ||
			strings.Contains(text, "Reason") || strings.Count(text, "Link: </x>") != 1 ||
			strings.Count(text, "HTTP/"+version) != 1 {
			t.Errorf("%v %s", err, text)
		}
	}
}

func TestAnAnswerOfKnownLengthIsStreamedAsItComes(t *testing.T) {
	w := newWorld(t)
	more := make(chan struct{})
	w.owner("a", "n1", 1, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Length", "10")
		fmt.Fprint(rw, "first")
		_ = http.NewResponseController(rw).Flush()
		<-more
		fmt.Fprint(rw, "again")
	})
	conn, in := w.dial()
	fmt.Fprint(conn, "GET /a/ HTTP/1.1\r\nHost: x\r\n\r\n")
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		close(more)
		t.Fatalf("its first half is held back: %v", err)
	}
	half := make([]byte, 5)
	_, err = io.ReadFull(resp.Body, half)
	close(more)
	if rest, bad := io.ReadAll(resp.Body); err != nil || bad != nil ||
		string(half)+string(rest) != "firstagain" {
		t.Errorf("%q %q, %v %v", half, rest, err, bad)
	}
}

// Each request under way may hold one: with net/http's own limit 4,096 times 10 MB.
func TestAnAnswerWithTooManyHeadersIsNotPassedOn(t *testing.T) {
	w := newWorld(t)
	for _, size := range []int{dispatch.HeadBytes / 2, 2 * dispatch.HeadBytes} {
		w.owner("a", "n1", 7, func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("X-Large", strings.Repeat("y", size))
		})
		a := w.do("GET", "/a/", "")
		if size > dispatch.HeadBytes {
			w.refused(a, http.StatusBadGateway, dispatch.ReasonLost)
		} else if a.StatusCode != http.StatusOK || len(a.Header.Get("X-Large")) != size {
			t.Errorf("%d bytes: %s", size, a.Status)
		}
	}
}

// A client whose body cannot be read hears that it is at fault, and not that a connection was lost.
func TestABodyThatBreaksOffIsTheClientsFault(t *testing.T) {
	w := newWorld(t)
	w.front.Config.Handler = httpserver.Paced(w.d, 500*time.Millisecond)
	w.owner("a", "n1", 1, func(rw http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			fmt.Fprint(rw, "whole")
		}
	})
	for _, path := range []string{"/a/", "/*/"} {
		for what, c := range map[string]struct {
			body   string
			status int
			reason string
		}{
			"a bad chunk": {"Transfer-Encoding: chunked\r\n\r\n4\r\nbodyzz\r\n", 400,
				dispatch.ReasonBody},
			"the rest does not come": {"Content-Length: 100\r\n\r\nbody", 408,
				dispatch.ReasonTimeout},
		} {
			conn, in := w.dial()
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\n%s", path, c.body)
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Errorf("%s %s: %v", path, what, err)
				continue
			}
			b, _ := io.ReadAll(resp.Body)
			w.refused(answer{resp, string(b)}, c.status, c.reason)
			w.idle("its places are free")
		}
	}
}
