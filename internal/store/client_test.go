package store_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/keys"
	"github.com/hashicorp/consul/api"
)

// Consul says so unasked, as soon as a connection is opened, which net/http takes for a server's
// oddity.
func TestAConnectionThatConsulRefusesIsCalledByItsName(t *testing.T) {
	var said bytes.Buffer
	was := log.Writer()
	log.SetOutput(&said) // net/http's own
	defer log.SetOutput(was)
	consul := devconsul.New(devconsul.Config{MaxConnsPerClient: 1,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	defer consul.Close()
	ctx, cancel := context.WithCancel(t.Context())
	addrs, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- consul.ListenAndServe(ctx, "127.0.0.1:0", func(a net.Addr) { addrs <- a.String() })
	}()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	addr := <-addrs
	other, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := io.WriteString(other,
		"GET /v1/status/leader HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(other).ReadString('\n'); err != nil ||
		!strings.Contains(line, "200") {
		t.Fatalf("%q, %v", line, err)
	}

	for range 50 {
		cfg := api.DefaultConfig()
		cfg.Address = addr
		client, err := store.NewClient(cfg)
		if err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(store.Config{Client: client})
		if err != nil {
			t.Fatal(err)
		}
		_, _, _, err = s.Get(t.Context(), "work/a", store.Consistent)
		put := keys.Put(t.Context(), s, "work/a", nil, 0)
		_, txn := s.Txn(t.Context(), store.Set("work/a", nil, 0))
		for what, err := range map[string]error{"get": err, "put": put, "txn": txn} {
			if !errors.Is(err, store.ErrTooManyConns) || !errors.Is(err, store.ErrUnreachable) ||
				store.OutcomeUnknown(err) || !strings.Contains(err.Error(),
				"http_max_conns_per_client") {
				t.Fatalf("%s: %v", what, err)
			}
		}
		cfg.Transport.CloseIdleConnections()
	}
	log.SetOutput(was)
	if said.Len() > 0 {
		t.Errorf("on standard error: %s", said.String())
	}
}

// The library takes any other value for false: it would leave TLS out, or look at no certificate.
func TestASwitchThatIsNeitherTrueNorFalseMakesNoClient(t *testing.T) {
	for _, name := range []string{api.HTTPSSLEnvName, api.HTTPSSLVerifyEnvName} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "no")
			if _, err := store.ClientOr(nil); err == nil || !strings.Contains(err.Error(),
				name+` is "no": give true or false`) {
				t.Errorf("a client of the variables: %v", err)
			}
			if _, err := store.NewClient(&api.Config{Address: "127.0.0.1:8500"}); err == nil {
				t.Error("the library fills in what a configuration leaves out, and took the value")
			}
			t.Setenv(name, "false")
			if _, err := store.ClientOr(nil); err != nil {
				t.Error(err)
			}
		})
	}
}
