package httpserver

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// SpareConns is how many connections beyond the limit are accepted, to be asked what is always
// answered.
const SpareConns = 8

const full = "all connections of this server are taken: ask again soon"

// places are those for connections.
type places struct {
	most int
	next func(net.Conn, http.ConnState)

	mu    sync.Mutex
	conns map[net.Conn]*place
	idle  *list.List // of net.Conn: those between two requests, the longest idle first
	fresh *list.List // of net.Conn: those whose first request is not here yet, the oldest first
	ended *list.List // of net.Conn: those that were refused and are about to end
}

type place struct {
	spare bool // beyond the limit
	since time.Time
	in    *list.List // one of those; nil: a request is under way
	at    *list.Element
}

// freshTime is how long a new connection keeps its place although it has asked for nothing and
// others want it.
const freshTime = time.Second

func newPlaces(most int, next func(net.Conn, http.ConnState)) *places {
	if next == nil {
		next = func(net.Conn, http.ConnState) {}
	}
	return &places{most: most, next: next, conns: map[net.Conn]*place{}, idle: list.New(),
		fresh: list.New(), ended: list.New()}
}

// hook follows the connections of an http.Server, as its ConnState. The server calls it for a new
// connection before it accepts the next one.
func (p *places) hook(c net.Conn, state http.ConnState) {
	if state == http.StateNew {
		got, evicted := p.take(c)
		if evicted != nil {
			// A request that comes just now finds its place gone, and is not carried out.
			_ = abort(evicted)
			p.next(evicted, http.StateClosed)
		}
		if !got {
			_ = abort(c)
			return
		}
		p.next(c, state)
		return
	}
	if !p.follow(c, state) {
		return
	}
	p.next(c, state)
}

// take gives a new connection a place, if need be that of one that has nothing to do, which is to
// be closed.
func (p *places) take(c net.Conn) (got bool, evicted net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := &place{since: time.Now()}
	if len(p.conns) >= p.most {
		if evicted = p.idlest(at.since); evicted != nil {
			p.free(evicted)
		}
	}
	if len(p.conns) >= p.most+SpareConns {
		// A crowd connects faster than freshTime lets go of it. Whoever asks for something has done
		// so before so many others have come.
		if evicted = p.first(p.fresh); evicted == nil {
			return false, nil
		}
		p.free(evicted)
	}
	at.spare = len(p.conns) >= p.most
	p.conns[c] = at
	p.enter(c, at, p.fresh)
	return true, evicted
}

// idlest is the connection that is missed least; nil: all are busy.
func (p *places) idlest(now time.Time) net.Conn {
	for _, l := range []*list.List{p.ended, p.idle} {
		if c := p.first(l); c != nil {
			return c
		}
	}
	if c := p.first(p.fresh); c != nil && now.Sub(p.conns[c].since) >= freshTime {
		return c
	}
	return nil
}

// first is the connection that has been in a list the longest; nil: there is none.
func (p *places) first(l *list.List) net.Conn {
	if first := l.Front(); first != nil {
		return first.Value.(net.Conn)
	}
	return nil
}

// enter puts a connection into one of the lists; nil: into none.
func (p *places) enter(c net.Conn, at *place, in *list.List) {
	if at.in != nil {
		at.in.Remove(at.at)
	}
	if at.in, at.at = in, nil; in != nil {
		at.at = in.PushBack(c)
	}
}

func (p *places) free(c net.Conn) {
	if at := p.conns[c]; at != nil {
		p.enter(c, at, nil)
		delete(p.conns, c)
	}
}

// follow keeps account; false: the connection never had a place, or has lost it.
func (p *places) follow(c net.Conn, state http.ConnState) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.conns[c]
	if at == nil {
		return false
	}
	switch state {
	case http.StateIdle:
		p.enter(c, at, p.idle)
	case http.StateActive:
		p.enter(c, at, nil)
	case http.StateClosed, http.StateHijacked:
		p.free(c)
	}
	return true
}

// spare tells whether a connection is beyond the limit. It is no longer when a place has become
// free.
func (p *places) spare(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.conns[c]
	if at == nil {
		return true
	}
	if at.spare && len(p.conns) <= p.most {
		at.spare = false
	}
	return at.spare
}

// refused is for a connection that is to end, as soon as its answer is sent or its place is wanted.
func (p *places) refused(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.conns[c]; at != nil {
		p.enter(c, at, p.ended)
	}
}

type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// only answers on a connection beyond the limit what is always answered, and closes it.
func (p *places) only(next http.Handler, always func(*http.Request) bool,
	refused func(int, http.Header)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := r.Context().Value(connKey{}).(net.Conn)
		if c == nil || !p.spare(c) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Connection", "close")
		// with a body the connection would last until that has come
		if always != nil && r.ContentLength == 0 && always(r) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Retry-After", "1")
		refused(http.StatusServiceUnavailable, w.Header())
		refuse(w, r, http.StatusServiceUnavailable, full)
		p.refused(c)
	})
}
