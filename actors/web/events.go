package web

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coordd/coordd/actors/operator"
)

// newEventLog reads the event log when someone looks.
func newEventLog(op *operator.Client) *viewCache {
	return newViewCache(func(ctx context.Context) *view {
		l, err := op.EventLog(ctx)
		return &view{err: err, events: l}
	})
}

// keepAlive is the pause after which a follower hears that the connection is there: so a proxy
// keeps it, and a client that has gone is noticed.
const keepAlive = 15 * time.Second

// wanted says which events are asked for.
type wanted struct {
	about string
	since time.Time
	after uint64 // index of the last event seen
	known bool   // after was given
	limit uint64
	again bool // it was cut off, and goes on where it was
}

func wantedOf(r *http.Request, q url.Values) (want wanted, err error) {
	const most = 1 << 62
	if want.after, err = number(q, "after", 0, most, 0); err != nil {
		return want, err
	}
	want.known = q.Has("after")
	if want.limit, err = number(q, "limit", 1, most, most); err != nil {
		return want, err
	}
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		// of a client that was cut off, which asks with the query of its beginning
		want.known, want.again = true, true
		if want.after, err = number(url.Values{"Last-Event-ID": {last}}, "Last-Event-ID", 0, most,
			0); err != nil {
			return want, err
		}
	}
	if want.about = q.Get("about"); want.about != "" {
		if err := operator.CheckID(want.about); err != nil {
			return want, fmt.Errorf("about: %w", err)
		}
	}
	if since := q.Get("since"); since != "" {
		d, err := time.ParseDuration(since)
		if err != nil || d < 0 {
			return want, fmt.Errorf("since=%s: give how long ago, such as 1h", quote(since))
		}
		want.since = time.Now().Add(-d)
	}
	return want, nil
}

// follows tells whether the asker wants to hear what happens from now on.
func follows(r *http.Request, q url.Values) (bool, error) {
	switch q.Get("follow") {
	case "":
		return q.Has("follow") ||
			slices.ContainsFunc(r.Header.Values("Accept"), func(line string) bool {
				return strings.Contains(line, "text/event-stream")
			}), nil
	case "1", "true":
		return true, nil
	case "0", "false":
		return false, nil
	}
	return false, fmt.Errorf("follow=%s: give true or false", quote(q.Get("follow")))
}

// events answers with the event log, or with what happens from now on.
func (s *site) events(w http.ResponseWriter, r *http.Request, q url.Values) {
	want, err := wantedOf(r, q)
	var follow bool
	if err == nil {
		follow, err = follows(r, q)
	}
	if err == nil && follow && q.Has("limit") {
		err = errors.New("limit is for a list, and a stream has none: leave it out, or follow")
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	if follow {
		s.stream(w, r, want)
		return
	}
	v := s.log.look(r.Context())
	s.send(w, r, v.err, func() any {
		events, _ := v.events.After(want.after)
		events = operator.About(events, want.about, want.since)
		if n := uint64(len(events)); n > want.limit {
			events = events[n-want.limit:] // the newest
		}
		return events
	})
}

// stream sends events as they happen (server-sent events, as the HTML standard has them). The id of
// the last event of a transaction is its index: a client that asks again with it misses nothing.
func (s *site) stream(w http.ResponseWriter, r *http.Request, want wanted) {
	follower, ok := s.follow.join()
	if !ok {
		w.Header().Set("Retry-After", "5")
		refuse(w, http.StatusServiceUnavailable, fmt.Errorf("%d clients follow the events, which "+
			"is the limit: ask again soon, or without follow", s.follow.most))
		return
	}
	defer follower.leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
	flush := http.NewResponseController(w).Flush
	if r.Method == http.MethodHead {
		return
	}
	// A client that is cut off asks again after 2 s.
	if _, err := w.Write([]byte("retry: 2000\n\n")); err != nil || flush() != nil {
		return
	}
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	begun := want.known || !want.since.IsZero()
	if want.again {
		want.since = time.Time{} // it asks as it did at its beginning
	}
	for {
		var err error
		select {
		case <-r.Context().Done():
			return
		case <-s.Stopping:
			return
		case <-alive.C:
			_, err = w.Write([]byte(": still here\n\n"))
		case <-follower.log.Changed():
			l := follower.log.Take()
			if l.err != nil {
				panic(l.err) // as if it were read here: net/http logs it, and the client asks again
			}
			if !l.known {
				continue
			}
			var events []operator.Event
			if begun {
				events, want.after = l.After(want.after)
			} else {
				_, want.after = l.After(0)
				begun = true
			}
			err = s.tell(w, events, want)
			want.since = time.Time{} // what comes now is new, whatever the leader's clock shows
		}
		if err != nil || flush() != nil {
			return
		}
	}
}

// errStopping ends a stream whose host stops.
var errStopping = errors.New("the host stops")

// tell sends events. It ends early if the client goes or the host stops. A client that there is
// nothing to tell gets the id alone.
func (s *site) tell(w io.Writer, events []operator.Event, want wanted) error {
	b := bufio.NewWriter(w)
	events = operator.About(events, want.about, want.since)
	if len(events) == 0 {
		fmt.Fprintf(b, "id: %d\n\n", want.after)
	}
	for i, e := range events {
		select {
		case <-s.Stopping:
			return errStopping
		default:
		}
		data, err := json.Marshal(e)
		if err != nil {
			continue // an event has nothing that cannot be encoded
		}
		switch {
		case i+1 == len(events):
			fmt.Fprintf(b, "id: %d\n", want.after) // the index of the newest one of all
		case events[i+1].Index != e.Index:
			fmt.Fprintf(b, "id: %d\n", e.Index)
		}
		if _, err = fmt.Fprintf(b, "data: %s\n\n", data); err != nil {
			return err
		}
	}
	return b.Flush()
}
