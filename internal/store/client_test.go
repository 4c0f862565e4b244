package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/coordd/coordd/internal/store"
	"github.com/hashicorp/consul/api"
)

// Consul says so unasked, as soon as a connection is opened, which net/http takes for a server's
// oddity.
func TestAConnectionThatConsulRefusesIsCalledByItsName(t *testing.T) {
	var said bytes.Buffer
	was := log.Writer()
	log.SetOutput(&said) // net/http's own
	defer log.SetOutput(was)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var refusing sync.WaitGroup
	defer refusing.Wait()
	defer listener.Close()
	refusing.Go(func() { // each connection, as Consul does
		const text = "Your IP is issuing too many concurrent connections, please rate limit your " +
			"calls\n"
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			fmt.Fprintf(c, "HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/plain\r\n"+
				"Content-Length: %d\r\nConnection: close\r\n\r\n%s", len(text), text)
			c.Close()
		}
	})
	for range 50 {
		cfg := api.DefaultConfig()
		cfg.Address = listener.Addr().String()
		client, err := store.NewClient(cfg)
		if err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(store.Config{Client: client})
		if err != nil {
			t.Fatal(err)
		}
		_, _, _, err = s.Get(t.Context(), "work/a", store.Consistent)
		_, txn := s.Txn(t.Context(), store.Set("work/a", nil, 0))
		for what, err := range map[string]error{"get": err, "txn": txn} {
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
