package dispatch_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/dispatch"
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
