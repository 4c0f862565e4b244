// Package transport is what tests put between a client of Consul and its server: an
// http.RoundTripper made of a function, the ways in which a request or its answer goes wrong, and
// what tells one request from another. It imports net/http only.
package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ErrReset is what a sender sees of a connection that breaks.
var ErrReset = errors.New("connection reset by peer")

// Func is a transport made of a function: a fake Consul, or a fault in front of a real one.
type Func func(*http.Request) (*http.Response, error)

// RoundTrip calls f.
func (f Func) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Answer is an answer to r. The headers are names and values in turn.
func Answer(r *http.Request, status int, body string, headers ...string) *http.Response {
	h := http.Header{}
	for i := 0; i+1 < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return &http.Response{StatusCode: status, Status: strconv.Itoa(status), Header: h, Request: r,
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}
}

// Always answers every request alike.
func Always(status int, body string, headers ...string) Func {
	return func(r *http.Request) (*http.Response, error) {
		return Answer(r, status, body, headers...), nil
	}
}

// Fail fails every request. None of them arrives.
func Fail(err error) Func {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// Hang accepts a request and never answers it. It returns when the request's context ends.
func Hang(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// Lose delivers requests and loses their answers: the sender sees ErrReset.
func Lose(to http.RoundTripper) Func {
	return func(r *http.Request) (*http.Response, error) {
		deliver(to, r)
		return nil, ErrReset
	}
}

// Mute delivers requests, and no answer ever comes.
func Mute(to http.RoundTripper) Func {
	return func(r *http.Request) (*http.Response, error) {
		deliver(to, r)
		return Hang(r)
	}
}

// Late delivers requests after d. Their senders see ErrReset at once.
func Late(to http.RoundTripper, d time.Duration) Func {
	return func(r *http.Request) (*http.Response, error) {
		late := Copy(r)
		go func() {
			time.Sleep(d)
			deliver(to, late)
		}()
		return nil, ErrReset
	}
}

// Twice delivers requests, and a copy of each after d.
func Twice(to http.RoundTripper, d time.Duration) Func {
	return func(r *http.Request) (*http.Response, error) {
		_, _ = Late(to, d)(r)
		return to.RoundTrip(r)
	}
}

// Slow is a way to a Consul that takes its time for each answer. A long poll takes none on top of
// its wait.
func Slow(to http.RoundTripper, takes func() time.Duration) Func {
	return func(r *http.Request) (*http.Response, error) {
		if Poll(r) {
			return to.RoundTrip(r)
		}
		if d := takes(); d > 0 {
			if err := Wait(r, d); err != nil {
				return nil, err
			}
		}
		return to.RoundTrip(r)
	}
}

// Wait waits for d, or for the end of the request's context: then it returns that one's error.
func Wait(r *http.Request, d time.Duration) error {
	wait := time.NewTimer(d)
	defer wait.Stop()
	select {
	case <-wait.C:
		return nil
	case <-r.Context().Done():
		return r.Context().Err()
	}
}

// Poll tells whether a request is a long poll.
func Poll(r *http.Request) bool { return r.URL.Query().Has("index") }

// Txn is the text of a transaction. It is empty for any other request.
func Txn(r *http.Request) string {
	if r.Method != http.MethodPut || r.URL.Path != "/v1/txn" {
		return ""
	}
	return Text(r)
}

// Text is the body of a request, which can be read again afterwards. An error of the body comes
// again as well.
func Text(r *http.Request) string {
	if r.Body == nil {
		return ""
	}
	text, err := io.ReadAll(r.Body)
	r.Body.Close()
	var again io.Reader = bytes.NewReader(text)
	if err != nil {
		again = io.MultiReader(again, broken{err})
	}
	r.Body = io.NopCloser(again)
	return string(text)
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

// Copy is a copy of a request, to be delivered at any time: it does not end with its sender.
func Copy(r *http.Request) *http.Request {
	text := Text(r)
	c := r.Clone(context.WithoutCancel(r.Context()))
	c.Body, c.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	return c
}

// Again delivers a copy of a request and returns the status of its answer, 0 for none.
func Again(to http.RoundTripper, r *http.Request) (status int) { return deliver(to, Copy(r)) }

func deliver(to http.RoundTripper, r *http.Request) (status int) {
	resp, err := to.RoundTrip(r)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}
