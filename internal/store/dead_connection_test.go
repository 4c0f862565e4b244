package store_test

import (
	"context"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/keys"
	"github.com/hashicorp/consul/api"
)

// mortal is a connection that dies in silence: from then on what is written is swallowed, and
// nothing is read any more.
type mortal struct {
	net.Conn
	dead   <-chan struct{}
	once   sync.Once
	closed chan struct{}
}

func (m *mortal) died() bool {
	select {
	case <-m.dead:
		return true
	default:
		return false
	}
}

func (m *mortal) Write(p []byte) (int, error) {
	if m.died() {
		return len(p), nil
	}
	return m.Conn.Write(p)
}

func (m *mortal) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	if m.died() {
		<-m.closed
		return 0, net.ErrClosed
	}
	return n, err
}

func (m *mortal) Close() error {
	m.once.Do(func() { close(m.closed) })
	return m.Conn.Close()
}

// A firewall that forgets connections drops their packets and closes nothing; new ones it lets
// through. A member has several connections: what its long polls have used is idle now and then.
func TestConnectionsThatDieInSilenceCostOneCallOnly(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			consul := devconsul.New(devconsul.Config{Logger: slog.New(slog.DiscardHandler)})
			defer consul.Close()
			server := httptest.NewUnstartedServer(consul)
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			server.EnableHTTP2 = true
			cfg := api.DefaultConfig()
			if scheme == "https" {
				server.StartTLS()
				trusting := server.Client().Transport.(*http.Transport)
				cfg.Transport.TLSClientConfig = trusting.TLSClientConfig.Clone()
			} else {
				server.Start()
			}
			defer server.Close()
			cfg.Address, cfg.Scheme = server.Listener.Addr().String(), scheme
			cut := make(chan struct{})
			cfg.Transport.DialContext = func(ctx context.Context, network,
				address string) (net.Conn, error) {
				conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
				if err != nil {
					return nil, err
				}
				m := &mortal{Conn: conn, dead: cut, closed: make(chan struct{})}
				if m.died() {
					return conn, nil
				}
				return m, nil
			}
			client, err := store.NewClient(cfg)
			must(t, err)
			defer cfg.Transport.CloseIdleConnections()
			of := func(timeout time.Duration) store.Store {
				s, err := store.Open(store.Config{Client: client,
					CallTimeout: timeout, Logger: slog.New(slog.DiscardHandler)})
				must(t, err)
				return s
			}
			patient := of(30 * time.Second)
			key := "work/a"
			var polls sync.WaitGroup
			for range 3 {
				polls.Go(func() {
					w := store.WatchKey(patient, key)
					for range 2 {
						if _, err := w.Next(t.Context()); err != nil {
							t.Error(err)
						}
					}
				})
			}
			for consul.Blocked() < 3 {
				time.Sleep(time.Millisecond)
			}
			must(t, keys.Put(t.Context(), patient, key, []byte("1"), 0))
			polls.Wait()
			ctx, cancel := context.WithCancel(t.Context())
			defer func() { cancel(); polls.Wait() }()
			polls.Go(func() { // is under way all the time
				w := store.WatchKey(patient, key)
				for range 2 {
					_, _ = w.Next(ctx)
				}
			})
			for consul.Blocked() < 1 {
				time.Sleep(time.Millisecond)
			}

			close(cut)
			if _, _, _, err := of(500*time.Millisecond).Get(t.Context(), key,
				store.Consistent); err == nil {
				t.Fatal("a call on a dead connection was answered")
			}
			if _, _, _, err := patient.Get(t.Context(), key, store.Consistent); err != nil {
				t.Errorf("the call after the one that has timed out: %v", err)
			}
		})
	}
}
