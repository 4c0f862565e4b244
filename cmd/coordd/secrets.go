package main

import (
	"slices"
	"strings"

	"github.com/coordd/coordd/actors"
	"github.com/spf13/pflag"
)

// harmless are the variables of Consul's that say where it is and not how to be let in.
var harmless = []string{
	"CONSUL_HTTP_ADDR", "CONSUL_GRPC_ADDR", "CONSUL_HTTP_SSL", "CONSUL_HTTP_SSL_VERIFY",
	"CONSUL_CACERT", "CONSUL_CAPATH",
	"CONSUL_GRPC_CACERT", "CONSUL_GRPC_CAPATH", "CONSUL_TLS_SERVER_NAME", "CONSUL_NAMESPACE",
	"CONSUL_PARTITION", "CONSUL_DATACENTER",
}

// credentials is where systemd tells a service that its LoadCredential= files are. Files of root's
// lie there in the clear, such as the token of --http.
const credentials = "CREDENTIALS_DIRECTORY"

// secretFlags names the flag that lets variables through to commands.
func secretFlags(f *pflag.FlagSet, pass *[]string) {
	f.StringSliceVar(pass, "pass-env", nil,
		"Variables that the command gets although they open Consul or say where secrets are: "+
			"`names`, such as CONSUL_HTTP_TOKEN. Without it the command gets neither tokens and "+
			"passwords nor the path of a key, nor systemd's "+credentials+".")
}

// secrets lists the variables of an environment that commands do not get: a command may be of any
// user, and what opens Consul opens it for all items. Pass lists those that they get all the same.
func secrets(environ, pass []string) (names []string) {
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if secret(name, value) && !slices.Contains(pass, name) {
			names = append(names, name)
		}
	}
	return names
}

// secret goes by the name; an address is one when it holds a password.
func secret(name, value string) bool {
	switch {
	case name == credentials:
		return true
	case strings.HasPrefix(name, "CONSUL_") && !slices.Contains(harmless, name):
		return true
	case strings.HasPrefix(name, "COORDD_") &&
		slices.ContainsFunc([]string{"TOKEN", "KEY", "SECRET", "PASSWORD", "AUTH", "CREDENTIAL"},
			func(word string) bool {
				return strings.Contains(name, word)
			}):
		return true
	case strings.HasPrefix(name, "CONSUL_"), name == envName("consul"):
		_, auth := actors.SplitAddress(value)
		return auth != nil
	}
	return false
}
