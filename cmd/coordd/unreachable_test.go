package main

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/coordd/coordd/actors"
)

func TestAnUnreachableConsulIsNamedWithWhatToDo(t *testing.T) {
	cause := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connect: connection refused")}
	err := trouble("consul.test:8500", fmt.Errorf("looking: %w: %w", actors.ErrUnreachable, cause))
	want := "Consul at consul.test:8500 does not answer (connect: connection refused): start it, " +
		"or give its address with --consul or CONSUL_HTTP_ADDR"
	if err.Error() != want {
		t.Errorf("got %q", err)
	}
}

func TestTooManyConnectionsAreNotCalledAConsulThatIsDown(t *testing.T) {
	err := trouble("127.0.0.1:8500", fmt.Errorf("reading: %w: %w", actors.ErrUnreachable,
		actors.ErrTooManyConns))
	if text := err.Error(); !strings.Contains(text, "too many connections") ||
		!strings.Contains(text, "http_max_conns_per_client") || strings.Contains(text, "start it") {
		t.Error(text)
	}
}
