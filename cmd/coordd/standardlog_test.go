package main

import (
	"bufio"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/actors/routing"
	"github.com/coordd/coordd/internal/testkit"
)

// unreadLog is a place to write to that takes nothing until it is closed.
type unreadLog chan struct{}

func (u unreadLog) Write(p []byte) (int, error) {
	<-u
	return len(p), nil
}

// owners says which address each item is at.
type owners map[string]string

func (o owners) Locate(_ context.Context, item string) (routing.Location, error) {
	return routing.Location{Member: item, Address: o[item], Token: 1}, nil
}

func (o owners) Await(ctx context.Context, item string) (routing.Location, error) {
	return o.Locate(ctx, item)
}
func (owners) Members(context.Context) ([]routing.Member, error) { return nil, nil }

// chatter answers each request, and says something more when the connection is idle.
func chatter(t *testing.T) (address string, said <-chan struct{}) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	once := make(chan struct{})
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	t.Cleanup(func() { ln.Close() })
	say := sync.OnceFunc(func() { close(once) })
	all.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					r.Body.Close()
				}
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				time.Sleep(100 * time.Millisecond)
				_, _ = io.WriteString(conn, "and another thing")
				say()
				_, _ = conn.Read(make([]byte, 1))
			})
		}
	})
	return ln.Addr().String(), once
}

func TestAServiceThatSpeaksUnaskedHoldsNobodyUpWhileNobodyReadsTheLog(t *testing.T) {
	was, unread := log.Writer(), make(unreadLog)
	standardLog(unread)
	defer log.SetOutput(was)
	quiet := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer quiet.Close()
	noisy, said := chatter(t)
	d, err := dispatch.New(dispatch.Config{
		Locator: owners{"noisy": noisy, "quiet": quiet.Listener.Addr().String()},
	})
	must(t, err)
	front := httptest.NewServer(d)
	defer front.Close()
	defer d.CloseIdleConnections()
	defer http.DefaultClient.CloseIdleConnections()
	get := func(item string) {
		resp, err := http.Get(front.URL + "/" + item + "/")
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	get("noisy")
	<-said
	time.Sleep(100 * time.Millisecond) // it is read
	var all sync.WaitGroup
	defer all.Wait()
	defer close(unread)
	all.Go(func() { get("noisy") })
	time.Sleep(100 * time.Millisecond)
	answered := make(chan struct{})
	all.Go(func() {
		get("quiet")
		close(answered)
	})
	select {
	case <-answered:
	case <-time.After(testkit.Patience):
		t.Error("the request to another service waits for the log")
	}
}
