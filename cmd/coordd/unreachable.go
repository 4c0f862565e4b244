package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"

	"github.com/coordd/coordd/actors"
)

var errNoAnswer = errors.New("it takes connections and says nothing in time")

// trouble turns an error of Consul's into one line that says what to do.
func trouble(consul string, err error) error {
	if !errors.Is(err, actors.ErrUnreachable) {
		return err
	}
	if errors.Is(err, actors.ErrTooManyConns) {
		return fmt.Errorf("Consul at %s refuses this connection (%w, 200 by default for all "+
			"processes of a host): raise limits.http_max_conns_per_client of that Consul agent, "+
			"or run less on this host",
			consul, actors.ErrTooManyConns)
	}
	why := err
	if op, ok := errors.AsType[*net.OpError](err); ok {
		why = op.Err
	} else if errors.Is(err, context.DeadlineExceeded) {
		why = errNoAnswer
	}
	return fmt.Errorf("Consul at %s does not answer (%w): start it, or give its address with "+
		"--consul or CONSUL_HTTP_ADDR",
		consul, why)
}
