package dispatch_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/actors/routing"
	"github.com/coordd/coordd/internal/testkit"
)

// angles has one member whose answers to a path below /*/large are a text that JSON makes six times
// as large.
func angles(w *world, size int) {
	large := strings.Repeat("<", size)
	address := w.service(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/*/large") {
			fmt.Fprint(rw, large)
			return
		}
		fmt.Fprint(rw, "here")
	})
	w.table.members = []routing.Member{{ID: "n1", Address: address}}
}

// slowly asks for the large answers, on a connection that takes little.
func (w *world) slowly() net.Conn {
	w.t.Helper()
	c, err := net.Dial("tcp", w.front.Listener.Addr().String())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
	fmt.Fprint(c, "GET /*/large HTTP/1.1\r\nHost: x\r\n\r\n")
	return c
}

func TestClientsThatDoNotReadTheAnswersToABroadcastStopNoOther(t *testing.T) {
	const clients, most = 72, 160 << 20 // of 72 MiB that the members have answered
	// None of them is cut off while the test lasts.
	w := newWorld(t, func(c *dispatch.Config) { c.Timeout = 4 * testkit.Patience })
	angles(w, 1<<20)
	// What is held, and not what the collector has left behind: on a busy machine that is as much
	// again.
	used := func() int64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	held := func() int64 {
		runtime.GC()
		runtime.GC() // what was let go while the first one marked, and what pools kept through it
		return used()
	}
	before := held()
	for i := range clients {
		w.slowly()
		if i%8 == 7 { // not so many at a time that the members are what is slow
			testkit.Eventually(t, "their answers are here", func() bool {
				return w.d.Reading() == i+1 || used()-before > most && held()-before > most
			})
		}
	}
	if a := w.do("GET", "/*/", ""); a.StatusCode != 200 ||
		gathered(t, a).Answers["n1"].Body != "here" {
		t.Errorf("another broadcast beside them: %s %s", a.Status, a.body)
	}
	if now := held() - before; now > most {
		t.Errorf("%d of them cost %d MiB", clients, now>>20)
	}
}

// Whoever reads a few bytes now and then keeps the room of an answer no longer than is needed to
// read it slowly.
func TestAnAnswerToABroadcastHasToBeReadInTime(t *testing.T) {
	w := newWorld(t, func(c *dispatch.Config) { c.Timeout, c.Idle = time.Second, time.Second })
	angles(w, 256<<10)
	c := w.slowly()
	begin := time.Now()
	_ = c.SetDeadline(begin.Add(testkit.Patience))
	for buf := make([]byte, 1<<10); time.Since(begin) < testkit.Patience; time.Sleep(
		100 * time.Millisecond) {
		if _, err := c.Read(buf); err != nil {
			break
		}
		if all, _ := w.d.InFlight(""); all == 0 && time.Since(begin) > 2*time.Second {
			return
		}
	}
	if all, _ := w.d.InFlight(""); all != 0 {
		t.Errorf("%d under way after %v", all, time.Since(begin))
	}
}

func TestTheAnswersToABroadcastAreWrittenAsTheyWouldBeByJSON(t *testing.T) {
	w := newWorld(t)
	add := func(id, body, kind string) {
		address := w.service(func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header()["Content-Type"] = nil
			if kind != "" {
				rw.Header().Set("Content-Type", kind)
			}
			fmt.Fprint(rw, body)
		})
		w.table.members = append(w.table.members, routing.Member{ID: id, Address: address})
	}
	add("empty", "", "")
	add("a \"b\" <c>", strings.Repeat("é\u2028<\n\x01😀", 5000), "text/x; y=\"é\"")
	add("bytes", strings.Repeat("\xff\x00", 5000)+"x", "a/b")
	add("long", strings.Repeat("é", 1<<19+1), "")
	check := func() {
		t.Helper()
		a := w.do("GET", "/*/", "")
		if want, err := json.MarshalIndent(gathered(t, a), "", "  "); err != nil ||
			a.body != string(want)+"\n" {
			t.Errorf("%v: %d bytes, want %d: %.300s", err, len(a.body), len(want)+1, a.body)
		}
	}
	check()
	w.table.members = append(w.table.members,
		routing.Member{ID: "none", Address: "a-host-name"}, routing.Member{ID: "<none>",
			Address: nobody(t)})
	check()
	w.table.members = w.table.members[4:]
	check()
}
