package devconsul

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// query is what a read asks for, and what the answer's headers say.
type query struct {
	minIndex          uint64
	wait              time.Duration
	stale, consistent bool
	// streaming says that the agent answers from a subscription, without the servers.
	streaming bool
	// datacenter is the error for an unknown datacenter. It comes after all other errors.
	datacenter error

	index       uint64
	knownLeader bool
	lastContact time.Duration
}

var errNoDatacenter = errors.New("No path to datacenter")

// errAborted ends a request when its caller or the server has gone. Nobody reads the answer.
var errAborted = errors.New("devconsul: request aborted")

// watchSet collects what wakes a blocking query: at most two trees, the loss of the leader, its
// catching up, and a restore.
type watchSet struct {
	ch [5]<-chan struct{}
	n  int
}

func (ws *watchSet) add(ch <-chan struct{}) {
	if ws != nil {
		ws.ch[ws.n] = ch
		ws.n++
	}
}

// parseQuery reads the parameters that all reads share.
func (s *Server) parseQuery(r *http.Request) (*query, error) {
	p := r.URL.Query()
	q := &query{stale: p.Has("stale"), consistent: p.Has("consistent")}
	if q.stale && q.consistent {
		return nil, badRequest("Cannot specify ?stale with ?consistent, conflicting semantics.")
	}
	if v := p.Get("wait"); v != "" {
		d, err := time.ParseDuration(v)
		if err != nil {
			return nil, badRequest("Invalid wait time")
		}
		q.wait = d
	}
	if v := p.Get("index"); v != "" {
		i, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			return nil, badRequest("Invalid index")
		}
		q.minIndex = i
	}
	if err := checkFilter(p); err != nil {
		return nil, err
	}
	q.datacenter = s.checkDatacenter(p)
	return q, nil
}

// checkFilter refuses filter expressions: an answer that leaves nothing out would be worse.
func checkFilter(p url.Values) error {
	if p.Get("filter") != "" {
		return badRequest(
			"filter expressions are not supported by this embedded server; ask a real Consul")
	}
	return nil
}

// checkDatacenter refuses other datacenters.
func (s *Server) checkDatacenter(p url.Values) error {
	dc := p.Get("datacenter")
	if dc == "" {
		dc = p.Get("dc")
	}
	if dc != "" && dc != s.cfg.Datacenter {
		return errNoDatacenter
	}
	return nil
}

const (
	defaultWait = 5 * time.Minute
	maxWait     = 10 * time.Minute
)

// timeout is how long a blocking query may wait.
func (s *Server) timeout(wait time.Duration) time.Duration {
	switch {
	case wait > maxWait:
		wait = maxWait
	case wait <= 0:
		wait = defaultWait
	}
	if j := wait / 16; !s.cfg.NoJitter && j > 0 {
		wait += rand.N(j)
	}
	return wait
}

// read runs a read once, or repeats it until its index is above the one that the caller has seen or
// the wait is over. run looks at one state, adds what would change its answer to ws, and returns
// the index of its answer and whether it found anything. A query that found nothing twice goes on
// waiting, whatever the table's index.
func (s *Server) read(ctx context.Context, q *query, run func(*state, *watchSet) (index uint64,
	found bool)) error {
	if q.datacenter != nil {
		return q.datacenter
	}
	needsLeader := !q.stale && !q.streaming
	var (
		deadline <-chan time.Time
		notFound bool
		seen     = q.minIndex
	)
	for {
		lead := s.leadership.Load()
		if lead.isLost() && needsLeader {
			return errNoLeader
		}
		st, ws := s.state.Load(), &watchSet{}
		var ready chan struct{}
		if lead.isBehind() && needsLeader {
			if q.consistent {
				return errNotReady
			}
			st, ready = lead.behind, lead.ready
		}
		index, found := run(st, ws)
		if ready != nil {
			ws = &watchSet{} // a past state does not change
		}
		q.setMeta(index, lead)
		if q.minIndex == 0 {
			return nil
		}
		if !found {
			if notFound {
				seen = q.index
			}
			notFound = true
		}
		if q.index > seen {
			return nil
		}

		if deadline == nil {
			t := time.NewTimer(s.timeout(q.wait))
			defer t.Stop()
			deadline = t.C
		}
		if needsLeader {
			ws.add(lead.lost)
		}
		ws.add(ready)
		ws.add(st.abandoned)
		over, err := s.await(ctx, ws, deadline)
		if err != nil || over || isClosed(st.abandoned) {
			return err
		}
	}
}

// await waits until something in ws has happened, or the wait is over.
func (s *Server) await(ctx context.Context, ws *watchSet, deadline <-chan time.Time) (over bool,
	err error) {
	s.blocked.Add(1)
	defer s.blocked.Add(-1)
	select {
	case <-ws.ch[0]:
	case <-ws.ch[1]:
	case <-ws.ch[2]:
	case <-ws.ch[3]:
	case <-ws.ch[4]:
	case <-deadline:
		over = true
	case <-ctx.Done():
		err = errAborted
	case <-s.closed:
		err = errAborted
	}
	return over, err
}

// Blocked returns how many blocking queries wait at this moment.
func (s *Server) Blocked() int { return int(s.blocked.Load()) }

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func (q *query) setMeta(index uint64, lead *leadership) {
	q.index = max(index, 1)
	q.knownLeader = !lead.isLost() && !q.streaming
	if lead.isLost() && !q.streaming {
		q.lastContact = time.Since(lead.lostAt)
	}
}

func (q *query) writeHeaders(h http.Header) {
	h.Set("X-Consul-Index", strconv.FormatUint(max(q.index, 1), 10))
	q.writeContact(h)
	backend := "blocking-query"
	if q.streaming {
		backend = "streaming"
	}
	h.Set("X-Consul-Query-Backend", backend)
}

func (q *query) writeContact(h http.Header) {
	h.Set("X-Consul-KnownLeader", strconv.FormatBool(q.knownLeader))
	h.Set("X-Consul-LastContact", strconv.FormatInt(q.lastContact.Milliseconds(), 10))
}
