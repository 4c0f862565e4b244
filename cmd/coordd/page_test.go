package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/internal/httpserver"
)

func TestARequestThatIsCutOffByTheStopIsToldSo(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	began := make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
		if errors.Is(context.Cause(r.Context()), dispatch.ErrStopping) {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- serve(ctx, ln, httpserver.New(httpserver.Config{Handler: handler}),
			time.Millisecond)
	}()
	answered := make(chan int, 1)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	go func() {
		resp, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Get("http://" +
			ln.Addr().String())
		if err != nil {
			t.Error(err)
			answered <- 0
			return
		}
		resp.Body.Close()
		answered <- resp.StatusCode
	}()
	<-began
	cancel()
	if status := <-answered; status != http.StatusBadGateway {
		t.Errorf("it was answered with %d", status)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
