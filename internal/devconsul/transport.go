package devconsul

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"syscall"

	"github.com/hashicorp/consul/api"
)

// RoundTripper reaches the server without a socket. A request is answered on the goroutine that
// makes it; nothing is left behind when it returns. When the request's context ends, RoundTrip
// returns its error at once; a write that had begun is then complete all the same, as a write whose
// answer was lost. After Close it fails as a port nobody listens on.
func (s *Server) RoundTripper() http.RoundTripper { return roundTripper{s} }

// Client returns a client of Consul's own library over RoundTripper.
func (s *Server) Client() *api.Client { return ClientOver(s.RoundTripper()) }

// Quiet starts a server that logs nothing, and returns a client of it. stop closes the server.
func Quiet() (client *api.Client, stop func()) {
	s := New(Config{Logger: slog.New(slog.DiscardHandler)})
	return s.Client(), s.Close
}

// ClientOver returns a client of Consul's own library over a transport.
func ClientOver(to http.RoundTripper) *api.Client {
	c, err := api.NewClient(&api.Config{Address: "devconsul.internal", Scheme: "http",
		HttpClient: &http.Client{Transport: to}})
	if err != nil {
		panic(fmt.Sprintf("devconsul: making a client: %v", err))
	}
	return c
}

type roundTripper struct{ s *Server }

func (t roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	ctx := req.Context()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case <-t.s.closed:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	default:
	}
	in := req.Clone(ctx)
	in.RequestURI = req.URL.RequestURI()
	in.RemoteAddr = "127.0.0.1:0"
	if in.Body == nil {
		in.Body = http.NoBody
	}
	rec := &recorder{header: make(http.Header)}
	aborted := rec.serve(t.s, in)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if aborted {
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	}
	rec.WriteHeader(http.StatusOK)
	body := io.NopCloser(&rec.body)
	if req.Method == http.MethodHead {
		body = http.NoBody // its length is told all the same
	}
	return &http.Response{
		Status:        fmt.Sprintf("%d %s", rec.code, http.StatusText(rec.code)),
		StatusCode:    rec.code,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        rec.sent,
		Body:          body,
		ContentLength: int64(rec.body.Len()),
		Request:       req,
	}, nil
}

// recorder keeps an answer in memory.
type recorder struct {
	header, sent http.Header
	code         int
	body         bytes.Buffer
}

// serve returns true when the handler gave the connection up instead of answering.
func (r *recorder) serve(h http.Handler, req *http.Request) (aborted bool) {
	defer func() {
		if p := recover(); p == http.ErrAbortHandler {
			aborted = true
		} else if p != nil {
			panic(p)
		}
	}()
	h.ServeHTTP(r, req)
	return false
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(code int) {
	if r.code == 0 {
		r.code, r.sent = code, r.header.Clone()
	}
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.code == 0 && r.header.Get("Content-Type") == "" {
		r.header.Set("Content-Type", http.DetectContentType(b))
	}
	r.WriteHeader(http.StatusOK)
	return r.body.Write(b)
}
