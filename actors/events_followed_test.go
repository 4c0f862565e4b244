package actors_test

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/operator"
)

func TestWhoFollowsTheEventLogSeesEachEventOnce(t *testing.T) {
	logged(t, func(w watched) {
		three(w.cluster, 9)
		before := w.last()
		ctx, cancel := context.WithCancel(w.t.Context())
		done := make(chan []operator.Event)
		go func() {
			var seen []operator.Event
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
		seen, want := <-done, []operator.Event(nil)
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

// A Consul that came back empty, or from a snapshot, has forgotten what a follower saw last. What
// was written before it asks again is not told apart from what it knows.
func TestWhoFollowsTheEventLogOfAConsulThatForgotItIsTold(t *testing.T) {
	logged(t, func(w watched) {
		three(w.cluster, 3)
		log, err := w.op.EventLog(w.t.Context())
		w.must(err)
		events, last := log.After(w.last() + 1000)
		if len(events) != 1 || events[0].Kind != operator.EventsMissed || last != w.last() {
			w.t.Errorf("it hears %+v and goes on from %d, and %d is the last", events, last,
				w.last())
		}
		if events, _ := log.After(last); len(events) > 0 {
			w.t.Errorf("then it hears %+v", events)
		}
		if events, last := (operator.EventLog{}).After(1000); len(events) > 0 || last != 0 {
			w.t.Errorf("of an empty log it hears %+v and goes on from %d", events, last)
		}
	})
}
