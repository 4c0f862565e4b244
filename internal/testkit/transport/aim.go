package transport

import (
	"io"
	"net/http"
	"runtime/pprof"
	"strings"
	"time"
)

// When sends the requests that aimed picks another way.
func When(to http.RoundTripper, aimed func(*http.Request) bool, way Func) Func {
	return func(r *http.Request) (*http.Response, error) {
		if aimed(r) {
			return way(r)
		}
		return to.RoundTrip(r)
	}
}

// Frozen holds requests back until thawed is closed or their contexts end.
func Frozen(to http.RoundTripper, thawed <-chan struct{}) Func {
	return func(r *http.Request) (*http.Response, error) {
		select {
		case <-thawed:
			return to.RoundTrip(r)
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
}

// By tells whether a request is one of the actor's whose path ends with name.
func By(r *http.Request, name string) bool {
	label, _ := pprof.Label(r.Context(), "actor")
	return strings.HasSuffix(label, name)
}

// Writes picks the requests that write.
func Writes(r *http.Request) bool { return r.Method != http.MethodGet }

// TxnWith picks the transactions that hold all of the texts.
func TxnWith(texts ...string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		body := Txn(r)
		for _, text := range texts {
			if !strings.Contains(body, text) {
				return false
			}
		}
		return body != ""
	}
}

// Thin is a line that carries Pace bytes a second each way, and nothing more of an answer after
// Stalls bytes of it (0: all of it).
type Thin struct {
	To     http.RoundTripper
	Pace   int
	Stalls int
}

func (l *Thin) wait(n int) { time.Sleep(time.Duration(n) * time.Second / time.Duration(l.Pace)) }

// RoundTrip is for [http.Client].
func (l *Thin) RoundTrip(r *http.Request) (*http.Response, error) {
	l.wait(len(Text(r)))
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	resp, err := l.To.RoundTrip(r)
	if err == nil {
		resp.Body = &thinBody{ReadCloser: resp.Body, line: l, r: r}
	}
	return resp, err
}

type thinBody struct {
	io.ReadCloser
	line *Thin
	r    *http.Request
	n    int
}

func (b *thinBody) Read(p []byte) (int, error) {
	if b.line.Stalls > 0 && b.n >= b.line.Stalls {
		<-b.r.Context().Done()
	}
	if err := b.r.Context().Err(); err != nil {
		return 0, err
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), 32<<10)])
	b.n += n
	b.line.wait(n)
	return n, err
}
