package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/hashicorp/consul/api"
)

func TestAnUnreachableConsulIsNamedWithWhatToDo(t *testing.T) {
	for want, cause := range map[string]error{
		"does not answer (connect: connection refused): start it, or give its address with " +
			"--consul or CONSUL_HTTP_ADDR": &net.OpError{Op: "dial", Net: "tcp",
			Err: errors.New("connect: connection refused")},
		"refuses this connection (too many connections from this address, 200 by default for all " +
			"processes of a host): raise limits.http_max_conns_per_client of that Consul agent, or " +
			"run less on this host": operator.ErrTooManyConns,
	} {
		err := trouble("consul.test:8500", fmt.Errorf("looking: %w: %w", operator.ErrUnreachable,
			cause))
		if want = "Consul at consul.test:8500 " + want; err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
	}
}

func TestWhatConsulAnswersIsSaid(t *testing.T) {
	for _, c := range []struct {
		name, want string
		way        transport.Func
	}{
		{"no leader", "500 Internal Server Error (No cluster leader)",
			transport.Always(500, "No cluster leader")},
		{"a certificate of another", "certificate signed by unknown authority",
			transport.Fail(errors.New("tls: certificate signed by unknown authority"))},
		{"silent", "does not answer (no answer in time): start it", transport.Hang},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				way := &http.Client{Transport: c.way}
				client, err := api.NewClient(&api.Config{HttpClient: way})
				must(t, err)
				o, err := operator.New(client, "demo")
				must(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), refusedTimeout)
				defer cancel()
				err = trouble("consul.test:8500", o.Reach(ctx))
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q in it", err, c.want)
				}
			})
		})
	}
}
