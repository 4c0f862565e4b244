package dispatch_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/actors/routing"
)

// Members that begin to hang one after the other: each of them holds up other broadcasts than the
// ones before. However many they are, the next broadcast finds a place.
func TestMembersThatBeginToHangOneAfterAnotherDoNotMakeBroadcastsBusy(t *testing.T) {
	staggered(t, dispatch.DefaultInFlight, 32)
}

// Nor do they where few requests may be under way at all.
func TestMembersThatHangLeavePlacesOfAFewRequests(t *testing.T) { staggered(t, 16, 4) }

// staggered has one member after the other hang, and sends so many broadcasts each time.
func staggered(t *testing.T, inFlight, each int) {
	synctest.Test(t, func(t *testing.T) {
		const hung = 8
		p := newPipes(t, dispatch.Config{Timeout: time.Minute, InFlight: inFlight,
			Fanout: dispatch.DefaultFanout})
		defer p.close()
		p.member("good", func(context.Context) {})
		hangs := make([]atomic.Bool, hung)
		for i := range hangs {
			p.member(fmt.Sprint("n", i), func(ctx context.Context) {
				if hangs[i].Load() {
					<-ctx.Done()
				}
			})
		}
		var answered sync.WaitGroup
		var mu sync.Mutex
		madeRoom := 0
		for i := range hangs {
			hangs[i].Store(true)
			for range each {
				answered.Add(1)
				p.broadcast(func(status int, g dispatch.Gathered, body string) {
					defer answered.Done()
					mu.Lock()
					defer mu.Unlock()
					if status != http.StatusMultiStatus || g.Answers["good"].Body != "here" {
						t.Errorf("while %d members hang: %d %s", i+1, status, body)
					}
					for _, why := range g.Missing {
						if strings.Contains(why, "needed the place") {
							madeRoom++
							break
						}
					}
				})
			}
			synctest.Wait()
			time.Sleep(time.Second)
		}
		answered.Wait()
		if least := each * (hung - 2); madeRoom < least {
			t.Errorf("%d broadcasts made room, want %d", madeRoom, least)
		}
		if n := p.d.Broadcasts(); n != 0 {
			t.Errorf("%d places are taken and nothing is under way", n)
		}
	})
}

// A member that takes its time is heard, also while others hang.
func TestASlowMemberIsWaitedForBesideMembersThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes(t, dispatch.Config{Timeout: time.Minute})
		defer p.close()
		slow := func(context.Context) { time.Sleep(5 * time.Second) }
		p.member("slow", slow)
		hangs := make([]atomic.Bool, 2)
		for i := range hangs {
			p.member(fmt.Sprint("n", i), func(ctx context.Context) {
				if hangs[i].Load() {
					<-ctx.Done()
				}
			})
		}
		for i := range hangs { // until all places are taken
			hangs[i].Store(true)
			for range 32 {
				p.broadcast(func(int, dispatch.Gathered, string) {})
			}
			time.Sleep(6 * time.Second)
		}
		if n := p.d.Broadcasts(); n != 64 {
			t.Errorf("%d places are taken", n)
		}
		for range 100 {
			p.broadcast(func(status int, g dispatch.Gathered, body string) {
				if g.Answers["slow"].Body != "here" {
					t.Errorf("%d %s", status, body)
				}
			})
			time.Sleep(200 * time.Millisecond)
		}
		time.Sleep(6 * time.Second)
	})
}

// A broadcast has a second before it makes room. When all are younger, one more is refused: also
// where there were others before them.
func TestABroadcastIsNotCutShortAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes(t, dispatch.Config{Timeout: time.Minute})
		defer p.close()
		var now atomic.Int32
		for i := range 2 {
			p.member(fmt.Sprint("n", i), func(context.Context) {
				if now.Load() == int32(i) {
					time.Sleep(900 * time.Millisecond)
				}
			})
		}
		p.broadcast(func(int, dispatch.Gathered, string) {})
		time.Sleep(2 * time.Second)
		for range 2 {
			for range 32 {
				p.broadcast(func(status int, _ dispatch.Gathered, body string) {
					if status >= 500 || strings.Contains(body, "needed the place") {
						t.Errorf("%d %s", status, body)
					}
				})
			}
			synctest.Wait()
			now.Add(1)
		}
		p.broadcast(func(status int, _ dispatch.Gathered, body string) {
			if status != http.StatusServiceUnavailable || !strings.HasPrefix(body, "64 broadcasts") {
				t.Errorf("one more: %d %s", status, body)
			}
		})
		time.Sleep(time.Second)
	})
}

// Members that hang leave room for requests to others, however many they are: also where as many
// requests as may wait for a move, and as many broadcasts as may wait for members.
func TestMembersThatHangLeaveRoomForRequestsToOthers(t *testing.T) {
	for name, c := range map[string]struct{ inFlight, perMember, hung int }{
		"as by default":         {1024, 64, 16},
		"more than there are":   {512, 64, 40},
		"with 1024 descriptors": {180, 90, 2},
	} {
		for _, last := range []bool{false, true} { // the members hang
			t.Run(fmt.Sprint(name, last), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := newPipes(t, dispatch.Config{InFlight: c.inFlight, PerMember: c.perMember,
						Wait: time.Hour, Timeout: time.Hour})
					defer p.close()
					hung := make([]string, c.hung)
					for i := range hung {
						hung[i] = fmt.Sprint("hung", i)
						p.owner(hung[i], func(ctx context.Context) { <-ctx.Done() })
					}
					p.owner("good", func(context.Context) {})
					p.table.set("moving", routing.ErrMoving)
					take := []func(){func() {
						for _, id := range hung {
							p.ask(id, c.perMember)
						}
					}, func() {
						p.ask("moving", c.inFlight/4)
						for range 64 {
							p.broadcast(func(int, dispatch.Gathered, string) {})
						}
					}}
					if last {
						slices.Reverse(take)
					}
					for _, f := range take {
						f()
						synctest.Wait()
					}
					rec := p.ask("good", 1)
					synctest.Wait()
					if rec.Code != http.StatusOK || rec.Body.String() != "here" {
						t.Errorf("%d %s", rec.Code, rec.Body)
					}
				})
			})
		}
	}
}

// A request that waits takes no place of those that do not. When its wait is over it needs one.
func TestARequestThatHasWaitedTakesAPlace(t *testing.T) {
	for hung, want := range map[int]string{1: "here", 2: "2 requests are under way"} {
		synctest.Test(t, func(t *testing.T) {
			p := newPipes(t, dispatch.Config{InFlight: 2, PerMember: 2, Wait: time.Hour})
			p.owner("hung", func(ctx context.Context) { <-ctx.Done() })
			p.owner("good", func(context.Context) {})
			good, _ := p.table.Locate(t.Context(), "good")
			p.table.set("good", routing.ErrMoving)
			waits := p.ask("good", 1)
			synctest.Wait()
			p.ask("hung", hung)
			synctest.Wait()
			if _, to := p.d.InFlight("hung"); to != hung {
				t.Errorf("beside one that waits %d of %d have a place", to, hung)
			}
			p.table.set("good", good)
			synctest.Wait()
			if !strings.HasPrefix(waits.Body.String(), want) {
				t.Errorf("beside %d others: %d %s", hung, waits.Code, waits.Body)
			}
			p.close()
			if all, _ := p.d.InFlight(""); all != 0 {
				t.Errorf("%d places are taken", all)
			}
		})
	}
}

// So do members that come one after the other, each of which finds places that those to come have
// not taken yet.
func TestMembersThatComeAndHangLeaveRoomForRequestsToOthers(t *testing.T) {
	for _, c := range []struct{ inFlight, hung, broadcasts int }{
		{512, 7, 64}, {512, 31, 64},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPipes(t, dispatch.Config{InFlight: c.inFlight, Timeout: time.Hour})
				defer p.close()
				for i := range c.hung {
					id := fmt.Sprint("hung", i)
					p.owner(id, func(ctx context.Context) { <-ctx.Done() })
					time.Sleep(time.Second)
					if i < 16 {
						p.ask(id, 257)
					} else { // more than that it has no room for
						p.ask(id, 9)
					}
					synctest.Wait()
				}
				for range c.broadcasts {
					p.broadcast(func(int, dispatch.Gathered, string) {})
				}
				synctest.Wait()
				p.owner("good", func(context.Context) {})
				for range 3 {
					rec := p.ask("good", 1)
					synctest.Wait()
					if rec.Code != http.StatusOK || rec.Body.String() != "here" {
						t.Errorf("%d %s", rec.Code, rec.Body)
					}
				}
			})
		})
	}
}

// Of the last places a member has few, and of the last half of those one. What it has of broadcasts
// does not keep it from its one.
func TestTheLastPlacesAreForMembersThatHaveFewOrNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes(t, dispatch.Config{InFlight: 512, PerMember: 64, Timeout: time.Hour})
		defer p.close()
		has := func(id string, want int) {
			t.Helper()
			rec := p.ask(id, 1)
			synctest.Wait()
			if rec.Code != 503 || !strings.Contains(rec.Body.String(), "members that have none yet") {
				t.Errorf("one more: %d %s", rec.Code, rec.Body)
			}
			if _, to := p.d.InFlight(id); to != want {
				t.Errorf("%s has %d places, want %d", id, to, want)
			}
		}
		member := func(id string, asked int) {
			p.owner(id, func(ctx context.Context) { <-ctx.Done() })
			for range asked { // one after the other: those that are refused have a place for a moment
				p.ask(id, 1)
				synctest.Wait()
			}
		}
		member("slow", 0)
		for i := range 6 {
			member(fmt.Sprint("first", i), 64)
		}
		member("few", 8)
		has("few", 8)
		for range 30 {
			p.broadcast(func(int, dispatch.Gathered, string) {})
		}
		synctest.Wait()
		p.ask("slow", 1)
		synctest.Wait()
		has("slow", 31)
	})
}

// One that waits for an owner which refuses connections, and then for the end of a move, has one
// place of those that wait all the time: it is not refused for want of another.
func TestARequestHasOnePlaceOfThoseThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes(t, dispatch.Config{InFlight: 4}) // one may wait
		refuses := routing.Location{Member: "n1", Address: "n1:80", Token: 1}
		p.table.set("a", refuses)
		p.owner("b", func(context.Context) {})
		good, _ := p.table.Locate(t.Context(), "b")
		waits := p.ask("a", 1)
		for _, next := range []any{routing.ErrMoving, refuses, routing.ErrMoving, good} {
			synctest.Wait()
			if all, _ := p.d.InFlight(""); all != 1 {
				t.Errorf("before it is %v: %d places, and %d %s", next, all, waits.Code, waits.Body)
			}
			p.table.set("a", next)
		}
		p.requests.Wait()
		if waits.Code != http.StatusOK {
			t.Errorf("%d %s", waits.Code, waits.Body)
		}
		p.close()
		if all, _ := p.d.InFlight(""); all != 0 {
			t.Errorf("%d places are taken", all)
		}
	})
}

// Nor do the event streams of some take all the places of streams.
func TestTheStreamsOfAMemberLeaveRoomForThoseOfOthers(t *testing.T) {
	w := newWorld(t, func(c *dispatch.Config) { c.Streams, c.StreamsPerMember = 8, 8 })
	open := make(chan struct{})
	defer close(open)
	for _, id := range []string{"n1", "n2"} {
		at := w.service(func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(rw).Flush()
			<-open
		})
		w.table.members = append(w.table.members, routing.Member{ID: id, Address: at})
		w.table.set(id, routing.Location{Member: id, Address: at, Token: 1})
	}
	for i, c := range []struct {
		item string
		want int
	}{{"n1", 200}, {"n1", 200}, {"n1", 200}, {"n1", 200}, {"n1", 200}, {"n1", 200}, {"n1", 200},
		{"n1", 503}, {"n2", 200}, {"n2", 503}} {
		conn, in := w.dial()
		fmt.Fprintf(conn, "GET /%s/ HTTP/1.1\r\nHost: x\r\n\r\n", c.item)
		if resp, err := http.ReadResponse(in, nil); err != nil || resp.StatusCode != c.want {
			t.Errorf("stream %d, to %s: %v %v", i, c.item, resp, err)
		}
	}
}

// owner registers a member that owns the item of its name.
func (p *pipes) owner(id string, wait func(context.Context)) {
	p.member(id, wait)
	p.table.set(id, routing.Location{Member: id, Address: id + ":80", Token: 1})
}

// ask sends so many requests for an item, and returns what the last of them is answered with.
func (p *pipes) ask(item string, n int) (last *httptest.ResponseRecorder) {
	for range n {
		rec := httptest.NewRecorder()
		last = rec
		p.requests.Go(func() { p.d.ServeHTTP(rec, httptest.NewRequest("GET", "/"+item+"/", nil)) })
	}
	return last
}
