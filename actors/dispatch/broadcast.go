package dispatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coordd/coordd/actors/routing"
)

// broadcast sends a request to all members at once and gathers their answers.
func (d *Dispatcher) broadcast(w *client, r *http.Request) *refusal {
	if isUpgrade(r) {
		return refuse(http.StatusBadRequest, ReasonPath, 0,
			"a broadcast cannot be upgraded: its answers are gathered")
	}
	g, refused := d.gathered(w, r)
	if refused != nil {
		return refused
	}
	defer d.answers.releaseN(g.room)
	if r.Context().Err() != nil && len(g.missing) > 0 {
		asked := ""
		if g.maybeDone || len(g.answers) > 0 {
			asked = "every member"
		}
		if over := ended(r.Context(), "broadcast", asked); over != nil {
			return over
		}
		panic(http.ErrAbortHandler) // there is nobody to answer
	}
	if g.room > smallBytes { // clients that read slowly leave room for the answers to others
		if !d.reading.acquireN(g.room) {
			return answered(r, "the members have answered, and the answers that clients are "+
				"reading take %d bytes, which is the limit", readingBytes)
		}
		defer d.reading.releaseN(g.room)
	}
	status := http.StatusOK
	switch {
	case len(g.answers) == 0 && g.maybeDone && !repeatable(r):
		status = http.StatusServiceUnavailable
		w.Header().Set(HeaderReason, ReasonLost)
	case len(g.answers) == 0:
		status = http.StatusServiceUnavailable
		w.Header().Set(HeaderReason, ReasonUnreachable)
		w.Header().Set("Retry-After", fmt.Sprint(soon))
	case len(g.missing) > 0:
		status = http.StatusMultiStatus
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.limitAnswer(time.Duration(g.room/slowestReader) * time.Second)
	w.WriteHeader(status)
	g.write(w)
	return nil
}

// admit reads a broadcast's body, and takes a place for it then: whoever sends slowly keeps nobody
// waiting. Bodies that have a place are so few that they take none of the room of those to come.
func (d *Dispatcher) admit(w *client, r *http.Request) (place *broadcastPlace, body []byte,
	refused *refusal) {
	if r.Body != nil {
		all, took, err := w.readAll(r.Context(), broadcastBytes+1, &d.bodies, d.cfg.Timeout)
		defer d.bodies.releaseN(took)
		if err != nil {
			if over := ended(r.Context(), "broadcast", ""); over != nil {
				return nil, nil, over
			}
		}
		switch {
		case errors.Is(err, errNoRoom):
			return nil, nil, refuse(http.StatusServiceUnavailable, ReasonBusy, soon,
				"the bodies of broadcasts that are on their way have %d bytes, which is the limit",
				bodiesBytes)
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, nil, refuse(http.StatusRequestTimeout, ReasonTimeout, 0,
				"the body of a broadcast must be here within %v", d.cfg.Timeout)
		case err != nil:
			return nil, nil, badBody(err, d.cfg.Timeout, "; nobody was asked")
		}
		if body = all; len(body) > broadcastBytes {
			return nil, nil, refuse(http.StatusRequestEntityTooLarge, ReasonTooLarge, 0,
				"the body of a broadcast may have %d bytes", broadcastBytes)
		}
	}
	if place = d.broadcasting.acquire(); place == nil {
		return nil, nil, refuse(http.StatusServiceUnavailable, ReasonBusy, soon,
			"%d broadcasts are under way, which is the limit",
			d.broadcasting.max)
	}
	return place, body, nil
}

// gathered asks all members. Its place is for the asking: a client may take its time to read the
// answers.
func (d *Dispatcher) gathered(w *client, r *http.Request) (*gathering, *refusal) {
	place, body, refused := d.admit(w, r)
	if refused != nil {
		return nil, refused
	}
	defer d.broadcasting.release(place)
	wait, cancel := context.WithTimeout(r.Context(), max(0, d.cfg.Wait))
	members, err := d.cfg.Locator.Members(wait)
	cancel()
	if over := ended(r.Context(), "broadcast", ""); err != nil && over != nil {
		return nil, over
	}
	if err != nil {
		return nil, unlocated(err)
	}
	if len(members) == 0 {
		return nil, refuse(http.StatusServiceUnavailable, ReasonNoOwner, later,
			"no member is registered")
	}
	asking, giveUp := context.WithCancelCause(r.Context())
	defer giveUp(nil)
	d.broadcasting.wait(place, giveUp)
	return d.gather(r.WithContext(asking), members, body), nil
}

// gather asks all members at once.
func (d *Dispatcher) gather(r *http.Request, members []routing.Member, body []byte) *gathering {
	g := &gathering{answers: map[string]reply{}, missing: map[string]string{}}
	most := int64(min(answerBytes, answersBytes/len(members)))
	header := d.outgoing(r)
	var mu sync.Mutex
	var asked sync.WaitGroup
	for _, m := range members {
		asked.Go(func() {
			a, took, err := d.ask(r, m, len(members), header.Clone(), body, most)
			mu.Lock()
			defer mu.Unlock()
			g.room += took
			if err != nil {
				g.missing[m.ID] = err.Error()
				g.maybeDone = g.maybeDone || errors.Is(err, errMaybeDone)
			} else {
				g.answers[m.ID] = a
			}
		})
	}
	asked.Wait()
	return g
}

// ask sends the request to one of so many members. Its answer takes so many bytes of room. The
// errors are for people.
func (d *Dispatcher) ask(r *http.Request, m routing.Member, of int, header http.Header,
	body []byte, most int64) (a reply, took int64, err error) {
	defer func() {
		// it would end the process, for this is no handler's goroutine
		if p := recover(); p != nil {
			d.log.Error("broadcast-panicked", "member", m.ID, "panic", p)
			err = fmt.Errorf("the dispatcher failed: %w", errMaybeDone)
		}
	}()
	if _, port, err := net.SplitHostPort(m.Address); err != nil || port == "" || port == "0" {
		return reply{}, 0, noService(m)
	}
	if err := d.requests.each.acquireBroadcast(m.ID); err != nil {
		return reply{}, 0, err
	}
	defer d.requests.each.releaseBroadcast(m.ID)
	ctx, cancel := context.WithTimeout(r.Context(), d.cfg.Timeout)
	defer cancel()
	give, err := d.turns.take(ctx, m.ID, of)
	if err == nil {
		defer give()
		err = d.fanout.Acquire(ctx, 1)
	}
	if err != nil {
		return reply{}, 0,
			errors.New("too many requests of broadcasts are under way: it was not asked")
	}
	defer d.fanout.Release(1)
	header.Set(HeaderMember, url.PathEscape(m.ID))
	out := (&http.Request{
		Method: r.Method, Header: header, Host: r.Host, ContentLength: int64(len(body)),
		URL: &url.URL{Scheme: "http", Host: m.Address, Path: r.URL.Path, RawPath: r.URL.RawPath,
			RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery},
	}).WithContext(ctx)
	if len(body) > 0 {
		out.Body = io.NopCloser(bytes.NewReader(body))
	}
	resp, sent, err := d.send(out, nil)
	if err != nil {
		return reply{}, 0, missing(ctx, m, sent, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		// net/http gives the connection away, and with it ctx has no end for what is read
		return reply{}, 0, fmt.Errorf("it goes on at %s in a protocol that nobody asked for: %w",
			m.Address, errMaybeDone)
	}
	switch oursIn(resp) {
	case ReasonNoAddress:
		return reply{}, 0, noService(m)
	case ReasonLoop:
		return reply{}, 0,
			fmt.Errorf("its address %s is that of a dispatcher: start it with --address "+
				"host:port of the service beside it",
				m.Address)
	}
	got, took, err := d.answers.readAll(resp.Body, 0, most+1)
	if err != nil {
		d.answers.releaseN(took)
		if errors.Is(err, errNoRoom) {
			return reply{}, 0,
				fmt.Errorf("there is no room for its answer beside those to other broadcasts: %w",
					errMaybeDone)
		}
		return reply{}, 0, missing(ctx, m, true, err)
	}
	a = reply{status: resp.StatusCode, contentType: resp.Header.Get("Content-Type")}
	a.truncated = int64(len(got)) > most
	a.body = got[:min(int64(len(got)), most)]
	return a, took, nil
}

func noService(m routing.Member) error {
	return fmt.Errorf("its address %q is that of no service: start it with --address host:port "+
		"of the service beside it",
		m.Address)
}

// missing is for a request that ended with err. Its context is ctx, and m may have got it if it was
// sent.
func missing(ctx context.Context, m routing.Member, sent bool, err error) error {
	err = unanswered(ctx, m, sent, err)
	if sent {
		err = fmt.Errorf("%w: %w", err, errMaybeDone)
	}
	return err
}

// unanswered is why it is missing.
func unanswered(ctx context.Context, m routing.Member, sent bool, err error) error {
	if f, ok := errors.AsType[*forbidden](err); ok {
		return fmt.Errorf("requests are not sent to it at %s: %w; give it an --address that "+
			"others reach it by, or allow the network here with --route-allow",
			m.Address, f)
	}
	cause := context.Cause(ctx)
	madeRoom := errors.Is(cause, errMadeRoom)
	e, ok := errors.AsType[net.Error](err)
	switch {
	case madeRoom && !sent:
		return fmt.Errorf("it was not connected to at %s when %w", m.Address, cause)
	case !sent:
		return fmt.Errorf("it cannot be connected to at %s", m.Address)
	case notConnected(err):
		return fmt.Errorf("the connection to it at %s was lost, and it takes no other one",
			m.Address)
	case madeRoom:
		return fmt.Errorf("it had not answered at %s when %w", m.Address, cause)
	case ok && e.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("it did not answer in time at %s", m.Address)
	}
	return fmt.Errorf("the connection to it at %s was lost", m.Address)
}

// errMaybeDone is part of the error of a member that is missing though the request was sent to it.
var errMaybeDone = errors.New("it may have carried the request out")

// outgoing are the headers of a broadcast.
func (d *Dispatcher) outgoing(r *http.Request) http.Header {
	h := r.Header.Clone()
	for _, v := range r.Header.Values("Connection") {
		for name := range strings.SplitSeq(v, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	// What concerns one connection only (RFC 9110, 7.6.1), and what asks for a form that cannot be
	// shown in a JSON document.
	for _, name := range []string{
		"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Accept-Encoding", "Content-Length", "Http2-Settings",
	} {
		h.Del(name)
	}
	d.strip(h, r.Header)
	h.Set(HeaderItem, "*")
	d.forwarded(h, r)
	return h
}

// isUpgrade tells whether a client wants more than an answer. Another version of HTTP it only
// offers, in HTTP/1.0 it cannot want more, and what Connection does not name is no wish of its
// connection.
func isUpgrade(r *http.Request) bool {
	if !r.ProtoAtLeast(1, 1) || upgradeType(r.Header) == "" {
		return false
	}
	asked := http.Header{"Upgrade": slices.Clone(r.Header.Values("Upgrade"))}
	dropOtherHTTP(asked)
	return asked.Get("Upgrade") != ""
}
