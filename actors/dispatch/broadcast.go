package dispatch

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/coordd/coordd/actors/routing"
)

// Gathered is the JSON document that a broadcast is answered with. Its status is 200 when every registered member answered, whatever
// it answered; 207 when some did not; 503 when none did.
type Gathered struct {
	Answers map[string]Answer `json:"answers"` // by member
	Missing map[string]string `json:"missing"` // by member: why there is no answer
}

// Answer is one member's.
type Answer struct {
	Status      int    `json:"status"`
	ContentType string `json:"content_type,omitempty"`
	Body        string `json:"body"`
	Base64      bool   `json:"base64,omitempty"`    // the body is not text: it is in base64
	Truncated   bool   `json:"truncated,omitempty"` // the body was longer than is kept: 1 MiB, less with more than 64 members
}

// broadcast sends a request to all members at once and gathers their answers.
func (d *Dispatcher) broadcast(w *client, r *http.Request) *refusal {
	if !d.broadcasting.enter() {
		return refuse(http.StatusServiceUnavailable, ReasonBusy, soon, "%d broadcasts are under way, which is the limit", broadcasts)
	}
	defer d.broadcasting.leave()
	if isUpgrade(r.Header) {
		return refuse(http.StatusBadRequest, ReasonPath, 0, "a broadcast cannot be upgraded: its answers are gathered")
	}
	wait, cancel := context.WithTimeout(r.Context(), max(0, d.cfg.Wait))
	members, err := d.cfg.Locator.Members(wait)
	cancel()
	if err != nil {
		return unlocated(err)
	}
	if len(members) == 0 {
		return refuse(http.StatusServiceUnavailable, ReasonNoOwner, later, "no member is registered")
	}
	var body []byte
	if r.Body != nil {
		body, err = w.all(broadcastBytes+1, d.cfg.Timeout)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return refuse(http.StatusRequestTimeout, ReasonTimeout, 0, "the body of a broadcast must be here within %v", d.cfg.Timeout)
		case err != nil:
			return refuse(http.StatusBadRequest, ReasonLost, 0, "reading the request's body: %v", err)
		}
		if len(body) > broadcastBytes {
			return refuse(http.StatusRequestEntityTooLarge, ReasonTooLarge, 0, "the body of a broadcast may have %d bytes", broadcastBytes)
		}
	}
	g := d.gather(r, members, body)
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // there is nobody to answer
	}
	out, err := json.MarshalIndent(g, "", "  ")
	if err != nil {
		return refuse(http.StatusInternalServerError, ReasonLost, 0, "writing the answers down: %v", err)
	}
	status := http.StatusOK
	switch {
	case len(g.Answers) == 0:
		status = http.StatusServiceUnavailable
		w.Header().Set(HeaderReason, ReasonUnreachable)
		w.Header().Set("Retry-After", fmt.Sprint(soon))
	case len(g.Missing) > 0:
		status = http.StatusMultiStatus
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(out, '\n'))
	return nil
}

// gather asks all members at once.
func (d *Dispatcher) gather(r *http.Request, members []routing.Member, body []byte) Gathered {
	g := Gathered{Answers: map[string]Answer{}, Missing: map[string]string{}}
	most := int64(min(answerBytes, answersBytes/len(members)))
	header := d.outgoing(r)
	var mu sync.Mutex
	var asked sync.WaitGroup
	for _, m := range members {
		asked.Go(func() {
			a, err := d.ask(r, m, header.Clone(), body, most)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				g.Missing[m.ID] = err.Error()
			} else {
				g.Answers[m.ID] = a
			}
		})
	}
	asked.Wait()
	return g
}

// ask sends the request to one member. The errors are for people.
func (d *Dispatcher) ask(r *http.Request, m routing.Member, header http.Header, body []byte, most int64) (a Answer, err error) {
	defer func() {
		if p := recover(); p != nil { // it would end the process, for this is no handler's goroutine
			d.log.Error("broadcast-panicked", "member", m.ID, "panic", p)
			err = errors.New("the dispatcher failed")
		}
	}()
	if _, port, err := net.SplitHostPort(m.Address); err != nil || port == "" || port == "0" {
		return Answer{}, fmt.Errorf("its address is %q: start it with --address host:port of the service beside it", m.Address)
	}
	if !d.members.enter(m.ID) {
		return Answer{}, fmt.Errorf("%d requests to it are under way, which is the limit", d.cfg.PerMember)
	}
	defer d.members.leave(m.ID)
	ctx, cancel := context.WithTimeout(r.Context(), d.cfg.Timeout)
	defer cancel()
	header.Set(HeaderMember, url.PathEscape(m.ID))
	out := (&http.Request{
		Method: r.Method, Header: header, ContentLength: int64(len(body)),
		URL: &url.URL{Scheme: "http", Host: m.Address, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery},
	}).WithContext(ctx)
	if len(body) > 0 {
		out.Body = io.NopCloser(bytes.NewReader(body))
	}
	resp, err := d.transport.RoundTrip(out)
	if err != nil {
		return Answer{}, missing(m, err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	if err != nil {
		return Answer{}, missing(m, err)
	}
	a = Answer{Status: resp.StatusCode, ContentType: resp.Header.Get("Content-Type"), Truncated: int64(len(got)) > most}
	got = got[:min(int64(len(got)), most)]
	if a.Body = string(got); !utf8.Valid(got) {
		a.Body, a.Base64 = base64.StdEncoding.EncodeToString(got), true
	}
	return a, nil
}

func missing(m routing.Member, err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return fmt.Errorf("it cannot be connected to at %s", m.Address)
	}
	if e, ok := errors.AsType[net.Error](err); (ok && e.Timeout()) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("it did not answer in time at %s: it may have carried the request out", m.Address)
	}
	return fmt.Errorf("the connection to it at %s was lost: it may have carried the request out", m.Address)
}

// outgoing are the headers of a broadcast.
func (d *Dispatcher) outgoing(r *http.Request) http.Header {
	h := r.Header.Clone()
	for _, v := range r.Header.Values("Connection") {
		for name := range strings.SplitSeq(v, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	// What concerns one connection only (RFC 9110, 7.6.1), and what asks for a form that cannot be shown in a JSON document.
	for _, name := range []string{
		"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Accept-Encoding", "Content-Length", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto",
	} {
		h.Del(name)
	}
	d.strip(h, r.Header)
	h.Set(HeaderItem, "*")
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		h.Set("X-Forwarded-For", host)
	}
	h.Set("X-Forwarded-Host", r.Host)
	h.Set("X-Forwarded-Proto", "http")
	if r.TLS != nil {
		h.Set("X-Forwarded-Proto", "https")
	}
	return h
}

func isUpgrade(h http.Header) bool { return h.Get("Upgrade") != "" }
