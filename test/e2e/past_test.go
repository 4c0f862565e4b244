//go:build linux && coordd_long

package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/test/realconsul"
)

// A Consul server with a long log answers renewals from the past until it has replayed it. The
// session here has ended before the restart.
func TestARealServerThatReplaysItsLogRenewsNoSessionThatHasEnded(t *testing.T) {
	// Not beside the others: half a gigabyte is written and synced, for which their servers would
	// wait.
	consul := realconsul.Start(t, realconsul.Options{})
	server := consul.Servers[0]
	s, err := protocol.New("past", store.Config{Client: server.Client()})
	if err != nil {
		t.Fatal(err)
	}
	id, _, err := s.CreateSession(t.Context(), store.SessionOptions{TTL: store.DefaultTTL})
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	go func() { // it lives until it is ended
		for {
			select {
			case <-stop:
				return
			case <-t.Context().Done():
				return
			case <-time.After(time.Second):
				_, _ = s.RenewSession(t.Context(), id, 0)
			}
		}
	}()
	// Half a gigabyte, as plain bodies: as transactions they would be encoded and decoded on the
	// way, which is most of the work.
	value := bytes.Repeat([]byte("x"), 500_000)
	for i := range 1080 {
		value[0], value[1] = byte(i), byte(i>>8) // a value that is there already is not written
		filler(t, server, fmt.Sprintf("filler/%d", i%3), value)
	}
	close(stop)
	if err := s.DestroySession(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if server.Stop() != nil {
		return
	}
	begin := time.Now()
	if server.Start() != nil {
		return
	}

	// As raw as a renewal can be, to know whether the server did answer from the past.
	var fromThePast atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	raw := make(chan struct{})
	go func() {
		defer close(raw)
		for ctx.Err() == nil {
			r, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+server.Addr()+
				"/v1/session/renew/"+id, nil)
			if err != nil {
				return
			}
			if resp, err := server.HTTPClient().Do(r); err == nil {
				if resp.StatusCode == http.StatusOK {
					fromThePast.Add(1)
				}
				resp.Body.Close()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	tries := 0
	for time.Since(begin) < time.Minute {
		tries++
		_, err := s.RenewSession(t.Context(), id, time.Second)
		if err == nil {
			t.Errorf("%v after its restart the server renewed a session that had ended",
				time.Since(begin))
			break
		}
		if errors.Is(err, store.ErrSessionGone) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	t.Logf("%d tries until the session was known to be gone, %v after the start; %d bare "+
		"renewals were answered 200",
		tries, time.Since(begin).Round(time.Millisecond), fromThePast.Load())
	cancel()
	<-raw
	ready(t, consul)
}

// filler writes a value past the library.
func filler(t *testing.T, server *realconsul.Server, key string, value []byte) {
	t.Helper()
	url := "http://" + server.Addr() + "/v1/kv/" + key
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, bytes.NewReader(value))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := server.HTTPClient().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(bytes.TrimSpace(body)) != "true" {
		t.Fatal(resp.Status, string(body), err)
	}
}
