package main

import (
	"context"
	"errors"

	"github.com/coordd/coordd/actors"
	"github.com/hashicorp/consul/api"
	"github.com/spf13/pflag"
)

// consulFlags say which Consul, and which part of it, a command is about. A guard process is given
// them as JSON.
type consulFlags struct {
	Consul     string `json:",omitempty"`
	Datacenter string `json:",omitempty"`
	Namespace  string `json:",omitempty"`
	Partition  string `json:",omitempty"`
}

// consulNames are their names.
var consulNames = []string{"consul", "datacenter", "namespace", "partition"}

func (c *consulFlags) register(f *pflag.FlagSet) {
	f.StringVar(&c.Consul, "consul", "",
		"Consul's `address`: host:port or a URL. Without it: CONSUL_HTTP_ADDR, else "+
			"127.0.0.1:8500.")
	f.StringVar(&c.Datacenter, "datacenter", "",
		"Consul's datacenter of that `name`. Without it: the agent's own. In another one a member "+
			"has no health check.")
	f.StringVar(&c.Namespace, "namespace", "",
		"The `namespace`, in Consul Enterprise. Without it: CONSUL_NAMESPACE.")
	f.StringVar(&c.Partition, "partition", "",
		"The admin `partition`, in Consul Enterprise. Without it: CONSUL_PARTITION.")
}

// some tells whether any of them is given.
func (c *consulFlags) some() bool { return *c != consulFlags{} }

// client returns a client of Consul and the address that it uses. It reads the files that the
// environment names, for a token and for TLS: nobody may ever write to one that is a pipe.
func (c *consulFlags) client(ctx context.Context) (*api.Client, string, error) {
	if err := actors.CheckSwitches(); err != nil { // before the library says of it what it says
		return nil, "", usage("%v", err)
	}
	cfg := api.DefaultConfig()
	if c.Consul != "" {
		cfg.Address = c.Consul
		shown, _ := actors.SplitAddress(c.Consul)
		if err := checkConsul(shown); err != nil {
			return nil, "", err
		}
	}
	for to, value := range map[*string]string{&cfg.Datacenter: c.Datacenter,
		&cfg.Namespace: c.Namespace, &cfg.Partition: c.Partition} {
		if value != "" {
			*to = value
		}
	}
	address, _ := actors.SplitAddress(cfg.Address) // what is logged
	if c.Consul == "" && !canBeReached(address) {
		return nil, "", usage("CONSUL_HTTP_ADDR is %q: give host:port, such as 127.0.0.1:8500, or a "+
			"URL", address)
	}
	client, err := reading(ctx, func() (*api.Client, error) { return actors.NewClient(cfg) })
	switch {
	case errors.Is(err, errInterrupted):
		return nil, "", err
	case err != nil:
		return nil, "", usage("Consul at %s: %v", address, err)
	}
	return client, address, nil
}
