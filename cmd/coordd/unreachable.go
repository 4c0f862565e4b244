package main

import (
	"errors"
	"fmt"
	"net"

	"github.com/coordd/coordd/actors"
)

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
	why := actors.ErrNoAnswer
	switch op, ok := errors.AsType[*net.OpError](err); {
	case ok:
		why = op.Err
	case !errors.Is(err, actors.ErrNoAnswer):
		return fmt.Errorf("Consul at %s gives no answer that can be used (%w): look at its log, "+
			"or give its address with --consul or CONSUL_HTTP_ADDR", consul, err)
	}
	return fmt.Errorf("Consul at %s does not answer (%w): start it, or give its address with "+
		"--consul or CONSUL_HTTP_ADDR",
		consul, why)
}
