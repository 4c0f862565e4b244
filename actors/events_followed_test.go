package actors_test

import (
	"context"
	"net/http"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/testkit/transport"
)

func TestWhoFollowsTheEventLogSeesEachEventOnce(t *testing.T) {
	logged(t, func(w watched) {
		three(w.cluster, 9)
		before := w.last()
		ctx, cancel := context.WithCancel(w.t.Context())
		done := make(chan []actors.Event)
		go func() {
			var seen []actors.Event
			for e := range w.op.FollowEvents(ctx, before) {
				seen = append(seen, e)
			}
			done <- seen
		}()
		w.must(w.op.Drain(w.t.Context(), w.follower()))
		time.Sleep(20 * time.Second)
		w.kill(w.leader())
		time.Sleep(90 * time.Second)
		cancel()
		seen, want := <-done, []actors.Event(nil)
		for _, e := range w.events() {
			if e.Index > before {
				want = append(want, e)
			}
		}
		if !reflect.DeepEqual(seen, want) || len(want) < 5 {
			w.t.Errorf("seen:\n%+v\nin the log:\n%+v", seen, want)
		}
	})
}

// Nobody supervises who follows the log: the page does it in a goroutine of its own, and a panic of
// the host's transport there would end the host.
func TestWhoFollowsTheEventLogOutlivesATransportThatPanicsOrEndsItsGoroutine(t *testing.T) {
	for name, breaks := range map[string]func(){
		"panics": func() { panic("the host's transport") }, "ends its goroutine": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			logged(t, func(w watched) {
				three(w.cluster, 9)
				before, left := w.last(), 3
				client := devconsul.ClientOver(transport.When(w.consul.RoundTripper(),
					transport.Poll, func(r *http.Request) (*http.Response, error) {
						if left--; left >= 0 {
							breaks()
						}
						return w.consul.RoundTripper().RoundTrip(r)
					}))
				op, err := actors.NewOperator(client, "demo")
				w.must(err)
				ctx, cancel := context.WithCancel(w.t.Context())
				done := make(chan int)
				go func() {
					n := 0
					defer func() { done <- n }()
					for range op.FollowEvents(ctx, before) {
						n++
					}
				}()
				time.Sleep(time.Minute) // the second poll is the first that waits
				w.must(w.op.Drain(w.t.Context(), w.follower()))
				time.Sleep(20 * time.Second)
				cancel()
				if n := <-done; n == 0 || left >= 0 {
					w.t.Errorf("%d events were seen, and the way was to break %d times more", n,
						left)
				}
			})
		})
	}
}

func TestWhoFollowsTheEventLogAndIsAwayForTooLongIsTold(t *testing.T) {
	logged(t, func(w watched) {
		three(w.cluster, 3)
		before := w.last()
		for range protocol.EventSlots { // two transactions each
			w.addWork("more")
			time.Sleep(2 * time.Second)
			w.removeWork("more")
			time.Sleep(2 * time.Second)
		}
		for e := range w.op.FollowEvents(w.t.Context(), before) {
			if e.Kind != actors.EventsMissed {
				w.t.Errorf("the first event is %+v", e)
			}
			break
		}
	})
}

// A Consul that came back empty, or from a snapshot, has forgotten what a follower saw last. What
// was written before it asks again is not told apart from what it knows.
func TestWhoFollowsTheEventLogOfAConsulThatForgotItIsTold(t *testing.T) {
	logged(t, func(w watched) {
		three(w.cluster, 3)
		log, err := w.op.EventLog(w.t.Context())
		w.must(err)
		events, last := log.After(w.last() + 1000)
		if len(events) != 1 || events[0].Kind != actors.EventsMissed || last != w.last() {
			w.t.Errorf("it hears %+v and goes on from %d, and %d is the last", events, last,
				w.last())
		}
		if events, _ := log.After(last); len(events) > 0 {
			w.t.Errorf("then it hears %+v", events)
		}
		if events, last := (actors.EventLog{}).After(1000); len(events) > 0 || last != 0 {
			w.t.Errorf("of an empty log it hears %+v and goes on from %d", events, last)
		}
	})
}
