package main

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/store"
	"github.com/hashicorp/consul/api"
	"github.com/spf13/pflag"
)

// envName is the variable that stands for a flag.
func envName(flag string) string {
	return "COORDD_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromEnvironment sets the flags that the command line did not from their
// variables. An empty variable counts as none, but for --http, where empty means off.
func (a *app) fromEnvironment(flags *pflag.FlagSet) error {
	var err error
	flags.VisitAll(func(f *pflag.Flag) {
		if err != nil || f.Changed || f.Name == "help" {
			return
		}
		name := envName(f.Name)
		value, ok := a.env(name)
		if f.Name == "backend" && value == "" { // what the system before this one calls it
			name = "BACKEND"
			value, ok = a.env(name)
		}
		if !ok || (value == "" && f.Name != "http") {
			return
		}
		if bad := flags.Set(f.Name, value); bad != nil {
			err = usage("the environment variable %s is %q: %v", name, value, reason(bad))
			return
		}
		a.taken = append(a.taken, fmt.Sprintf("%s=%q", name, value))
	})
	return err
}

// reason takes pflag's own beginning off an error, which names a flag that was not given.
func reason(err error) string {
	text := err.Error()
	if _, after, ok := strings.Cut(text, "flag: "); ok {
		return after
	}
	return text
}

// serviceFlags are what every command takes that talks to a service in Consul.
type serviceFlags struct {
	service, consul string
}

func (s *serviceFlags) register(f *pflag.FlagSet) {
	f.StringVar(&s.service, "service", "coordd", "The `name` of the service. Members of one name share one workload.")
	f.StringVar(&s.consul, "consul", "", "Consul's `address`: host:port or a URL. Without it: CONSUL_HTTP_ADDR, else 127.0.0.1:8500.")
}

// client returns a client of Consul and the address that it uses.
func (s *serviceFlags) client() (*api.Client, string, error) {
	cfg := api.DefaultConfig()
	if s.consul != "" {
		if err := checkConsul(s.consul); err != nil {
			return nil, "", err
		}
		cfg.Address = s.consul
	}
	address := cfg.Address
	client, err := store.NewClient(cfg)
	if err != nil {
		return nil, "", usage("Consul at %s: %v", address, err)
	}
	return client, address, nil
}

func checkConsul(address string) error {
	scheme, rest, isURL := strings.Cut(address, "://")
	if !isURL {
		_, port, err := net.SplitHostPort(address)
		if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 {
			return usage("--consul %q: give host:port, such as 127.0.0.1:8500, or a URL", address)
		}
		return nil
	}
	if _, err := url.Parse(address); err != nil || rest == "" || (scheme != "http" && scheme != "https" && scheme != "unix") {
		return usage("--consul %q: give a URL that begins with http://, https:// or unix://", address)
	}
	return nil
}

// operator returns the operators' side of the service, and Consul's address.
func (s *serviceFlags) operator() (*actors.Operator, string, error) {
	client, address, err := s.client()
	if err != nil {
		return nil, "", err
	}
	o, err := actors.NewOperator(client, s.service)
	if err != nil {
		return nil, "", usage("--service: %v", err)
	}
	return o, address, nil
}

// checkListen refuses an address that cannot be listened on, before anything starts.
func checkListen(flag, address string) error {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return usage("--%s %q: give host:port, such as 127.0.0.1:7070", flag, address)
	}
	return nil
}

// listen opens an address. What is in the way is a failure, not bad usage: it may be gone the next time.
func listen(flag, address string) (net.Listener, error) {
	if err := checkListen(flag, address); err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w: stop what uses it, or give another address (port 0 takes a free one)", flag, err)
	}
	return ln, nil
}
