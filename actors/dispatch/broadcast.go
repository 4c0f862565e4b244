package dispatch

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/coordd/coordd/actors/routing"
)

// Gathered is the JSON document that a broadcast is answered with. Its status is 200 when every
// registered member answered, whatever it answered; 207 when some did not; 503 when none did.
type Gathered struct {
	Answers map[string]Answer `json:"answers"` // by member
	Missing map[string]string `json:"missing"` // by member: why there is no answer
}

// Answer is one member's.
type Answer struct {
	Status      int    `json:"status"`
	ContentType string `json:"content_type,omitempty"`
	Body        string `json:"body"`
	// Base64: the body is not text, so it is in base64.
	Base64 bool `json:"base64,omitempty"`
	// Truncated: the body was longer than is kept, which is 1 MiB, less with more than 16 members.
	Truncated bool `json:"truncated,omitempty"`
}

// broadcast sends a request to all members at once and gathers their answers.
func (d *Dispatcher) broadcast(w http.ResponseWriter, r *http.Request) *refusal {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, broadcastBytes))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return refuse(http.StatusRequestEntityTooLarge, ReasonTooLarge, 0,
			"the body of a broadcast may have %d bytes", broadcastBytes)
	} else if err != nil {
		return badBody(err)
	}
	select {
	case d.broadcasting <- struct{}{}:
		defer func() { <-d.broadcasting }()
	default:
		return refuse(http.StatusServiceUnavailable, ReasonBusy, soon,
			"%d broadcasts are under way, which is the limit", cap(d.broadcasting))
	}
	wait, cancel := context.WithTimeout(r.Context(), max(0, d.cfg.Wait))
	members, err := d.cfg.Locator.Members(wait)
	cancel()
	if err != nil {
		return unlocated(err)
	}
	if len(members) == 0 {
		return refuse(http.StatusServiceUnavailable, ReasonNoOwner, later,
			"no member is registered")
	}
	g, maybeDone := d.gather(r, members, body)
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // there is nobody to answer
	}
	status := http.StatusOK
	switch {
	case len(g.Answers) == 0 && maybeDone:
		status = http.StatusServiceUnavailable
		w.Header().Set(HeaderReason, ReasonLost)
	case len(g.Answers) == 0:
		status = http.StatusServiceUnavailable
		w.Header().Set(HeaderReason, ReasonUnreachable)
		w.Header().Set("Retry-After", strconv.Itoa(soon))
	case len(g.Missing) > 0:
		status = http.StatusMultiStatus
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	_ = out.Encode(g) // it fails as the client does
	return nil
}

// gather asks all members at once. MaybeDone: one of those that are missing may have carried the
// request out.
func (d *Dispatcher) gather(r *http.Request, members []routing.Member, body []byte) (g Gathered,
	maybeDone bool) {
	g = Gathered{Answers: map[string]Answer{}, Missing: map[string]string{}}
	most := min(answerBytes, answersBytes/len(members))
	var mu sync.Mutex
	var asked sync.WaitGroup
	for _, m := range members {
		asked.Go(func() {
			a, refused := d.ask(r, m, body, most)
			mu.Lock()
			defer mu.Unlock()
			if refused != nil {
				g.Missing[m.ID] = refused.text
				maybeDone = maybeDone || refused.maybeDone()
				return
			}
			g.Answers[m.ID] = a
		})
	}
	asked.Wait()
	return g, maybeDone
}

// ask sends the request to one member.
func (d *Dispatcher) ask(r *http.Request, m routing.Member, body []byte, most int) (Answer,
	*refusal) {
	if !d.places.acquire() {
		return Answer{}, d.full()
	}
	defer d.places.release()
	ctx, cancel := context.WithTimeout(r.Context(), d.cfg.Timeout)
	defer cancel()
	out := r.WithContext(ctx)
	out.Body, out.ContentLength, out.TransferEncoding = io.NopCloser(bytes.NewReader(body)),
		int64(len(body)), nil
	t := &routedRequest{item: "*", broadcast: true,
		loc: routing.Location{Member: m.ID, Address: m.Address}}
	got := recorder{header: http.Header{}, most: most}
	whole := d.record(t, &got, out)
	switch {
	case t.refused != nil:
		return Answer{}, t.refused
	case !whole && !got.truncated:
		return Answer{}, refuse(http.StatusBadGateway, ReasonLost, 0,
			"member %s at %s did not answer to the end in time: it may have carried the request "+
				"out", m.ID, m.Address)
	}
	a := Answer{Status: got.status, ContentType: got.header.Get("Content-Type"),
		Body: string(got.body), Truncated: got.truncated}
	if !utf8.Valid(got.body) {
		a.Body, a.Base64 = base64.StdEncoding.EncodeToString(got.body), true
	}
	return a, nil
}

// record tells whether the member's whole answer was recorded. A panic outside of a handler's
// goroutine would end the process.
func (d *Dispatcher) record(t *routedRequest, w http.ResponseWriter, r *http.Request) (whole bool) {
	defer func() {
		if p := recover(); p != nil && p != any(http.ErrAbortHandler) {
			d.log.Error("broadcast-panicked", "member", t.loc.Member, "panic", p)
		}
	}()
	d.proxyTo(t, w, r)
	return true
}

// recorder is one member's answer as it comes.
type recorder struct {
	header    http.Header
	status    int
	body      []byte
	most      int
	truncated bool
}

func (w *recorder) Header() http.Header    { return w.header }
func (w *recorder) WriteHeader(status int) { w.status = status }

// Write ends the answer when it is longer than is kept.
func (w *recorder) Write(p []byte) (int, error) {
	kept := min(len(p), w.most-len(w.body))
	w.body = append(w.body, p[:kept]...)
	if kept < len(p) {
		w.truncated = true
		return kept, io.ErrShortWrite
	}
	return kept, nil
}
