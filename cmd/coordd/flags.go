package main

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/reread"
	"github.com/hashicorp/consul/api"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Annotations of flags.
const (
	commandLineOnly = "coordd_order"  // no variable and no line of a settings file stands for it
	forExperts      = "coordd_expert" // --help-all shows it, and --help does not
)

// orders marks flags that make another command of the one that is given, such as drain --wait. A
// variable that is set for a whole host must not do that.
func orders(flags *pflag.FlagSet, names ...string) { annotate(flags, commandLineOnly, names) }

func annotate(flags *pflag.FlagSet, key string, names []string) {
	for _, name := range names {
		// it fails only for a flag that is not there
		_ = flags.SetAnnotation(name, key, nil)
	}
}

func is(f *pflag.Flag, key string) bool {
	_, marked := f.Annotations[key]
	return marked
}

// isSetting tells whether a variable or a line of a settings file may stand for a flag.
func isSetting(f *pflag.Flag) bool {
	return !is(f, commandLineOnly) && f.Name != "help" && f.Name != "version"
}

// allCommands calls do with a command and those below it.
func allCommands(c *cobra.Command, do func(*cobra.Command)) {
	do(c)
	for _, sub := range c.Commands() {
		allCommands(sub, do)
	}
}

// settingNames are the names of the flags of all commands that are settings.
func settingNames(root *cobra.Command) map[string]bool {
	names := map[string]bool{}
	allCommands(root, func(c *cobra.Command) {
		for _, set := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
			set.VisitAll(func(f *pflag.Flag) {
				if isSetting(f) {
					names[f.Name] = true
				}
			})
		}
	})
	return names
}

// plainValue is the value of a flag that is a number, a time, or true or false. Numbers are decimal
// also where they begin with a zero, and errors say what to give.
type plainValue struct{ pflag.Value }

var (
	aNumber = regexp.MustCompile(`^-?[0-9]+$`)
	aShare  = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)
)

func (v plainValue) Set(text string) error {
	hint := ""
	text = strings.TrimSpace(text) // as of what comes from variables and files
	switch v.Type() {
	case "int", "uint64":
		hint = "give a whole number"
		if !aNumber.MatchString(text) {
			return errors.New(hint)
		}
		n, _ := new(big.Int).SetString(text, 10)
		text = n.String()
	case "duration":
		hint = "give a time with its unit, such as 500ms, 10s or 5m"
		switch d, err := time.ParseDuration(text); {
		case err == nil && d < 0:
			return errors.New("give 0s or more")
		case err == nil && d > actors.MaxTime:
			return fmt.Errorf("give at most %v", actors.MaxTime)
		}
	case "bool":
		hint = "give true or false"
	}
	if err := v.Value.Set(text); err != nil {
		if _, ok := errors.AsType[*strconv.NumError](err); ok && hint == "give a whole number" {
			hint = "the number is too large or too small"
		}
		return errors.New(hint)
	}
	return nil
}

// plainValues makes the numbers, times and switches of all commands plainValues.
func plainValues(root *cobra.Command) {
	allCommands(root, func(c *cobra.Command) {
		for _, set := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
			set.VisitAll(func(f *pflag.Flag) {
				_, done := f.Value.(plainValue)
				if !done && slices.Contains([]string{"int", "uint64", "duration", "bool"},
					f.Value.Type()) {
					f.Value = plainValue{f.Value}
				}
			})
		}
	})
}

// mayBeEmpty are the flags for which an empty text is a value. Any other text flag that is empty
// comes from a script whose variable is empty: it would mean another thing than the user wants.
var mayBeEmpty = []string{"http", "payload"}

func isEmpty(f *pflag.Flag) bool {
	value := f.Value.String()
	return (value == "" || value == "[]") && !slices.Contains(mayBeEmpty, f.Name)
}

// checkEmpty refuses text flags that are given and empty.
func checkEmpty(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		if isEmpty(f) {
			err = usage("--%s is empty: give a value, or leave it out", f.Name)
		}
	})
	return err
}

// flagError says what may have been meant by a flag that does not exist.
func flagError(cmd *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	switch {
	case !ok:
	case unknown.GetSpecifiedShortnames() != "":
		return usage("%v: a name that begins with a dash goes behind \"--\"", err)
	default:
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		return usage("%v%s", err, didYouMean("--", unknown.GetSpecifiedName(), names))
	}
	return usage("%v", err)
}

// didYouMean asks whether the name that is nearest to an unknown one was meant; empty: none is
// near. The nearness is the one that cobra uses for commands.
func didYouMean(prefix, name string, names []string) string {
	all := &cobra.Command{SuggestionsMinimumDistance: max(1, min(2, len(name)/3))}
	for _, n := range slices.Sorted(slices.Values(names)) {
		all.AddCommand(&cobra.Command{Use: n, Run: func(*cobra.Command, []string) {}})
	}
	best := all.SuggestionsFor(strings.ReplaceAll(strings.ToLower(name), "_", "-"))
	if len(best) == 0 {
		return ""
	}
	return ": did you mean " + prefix + strings.Join(best[:min(3, len(best))], " or "+prefix) + "?"
}

// serviceFlags are what every command takes that talks to a service in Consul.
type serviceFlags struct {
	service string
	consulFlags
}

func (s *serviceFlags) register(f *pflag.FlagSet) {
	f.StringVar(&s.service, "service", "coordd",
		"The `name` of the service. Members of one name share one workload.")
	s.consulFlags.register(f)
}

// consulFlags say which Consul, and which part of it, a command is about. A guard process is given
// them as JSON.
type consulFlags struct {
	Consul     string `json:",omitempty"`
	Datacenter string `json:",omitempty"`
	Namespace  string `json:",omitempty"`
	Partition  string `json:",omitempty"`
}

func (c *consulFlags) register(f *pflag.FlagSet) {
	f.StringVar(&c.Consul, "consul", "",
		"Consul's `address`: host:port or a URL. Without it: CONSUL_HTTP_ADDR, else "+
			"127.0.0.1:8500.")
	f.StringVar(&c.Datacenter, "datacenter", "",
		"Consul's datacenter of that `name`. Without it: the agent's own. A member needs an agent "+
			"there.")
	f.StringVar(&c.Namespace, "namespace", "",
		"The `namespace`, in Consul Enterprise. Without it: CONSUL_NAMESPACE.")
	f.StringVar(&c.Partition, "partition", "",
		"The admin `partition`, in Consul Enterprise. Without it: CONSUL_PARTITION.")
	annotate(f, forExperts, []string{"datacenter", "namespace", "partition"})
}

// client returns a client of Consul and the address that it uses.
func (c *consulFlags) client() (*api.Client, string, error) {
	if err := actors.CheckSwitches(); err != nil { // the error of Consul's library is less plain
		return nil, "", usage("%v", err)
	}
	cfg, from := api.DefaultConfig(), "CONSUL_HTTP_ADDR"
	if c.Consul != "" {
		cfg.Address, from = c.Consul, "--consul"
	}
	for to, value := range map[*string]string{&cfg.Datacenter: c.Datacenter,
		&cfg.Namespace: c.Namespace, &cfg.Partition: c.Partition} {
		if value != "" {
			*to = value
		}
	}
	address, _ := actors.SplitAddress(cfg.Address) // without a password
	if !isAddress(address) {
		return nil, "", usage("%s is %q: give host:port, such as 127.0.0.1:8500, or a URL", from,
			address)
	}
	client, err := actors.NewClient(cfg)
	if err != nil {
		return nil, "", usage("Consul at %s: %v", address, err)
	}
	return client, address, nil
}

// trimConsulVariables takes blanks, line breaks and a byte order mark off the ends of Consul's
// variables and those of proxies: one that was read from a file often ends in a line break.
func trimConsulVariables() {
	for _, kv := range os.Environ() {
		name, value, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "CONSUL_") || strings.HasSuffix(strings.ToUpper(name), "_PROXY") {
			_ = os.Setenv(name, trimmed(value))
		}
	}
}

func trimmed(text string) string {
	return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), reread.BOM))
}

// isAddress tells whether Consul may be at an address: host:port, a host, or a URL.
func isAddress(address string) bool {
	scheme, rest, isURL := strings.Cut(address, "://")
	switch {
	case !isURL:
		address = "http://" + address
	case scheme == "unix":
		return rest != ""
	case scheme != "http" && scheme != "https":
		return false
	}
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return false
	}
	if host := u.Hostname(); strings.Trim(host, "0123456789.") == "" && net.ParseIP(host) == nil {
		return false // a system may read 010 in it as 8
	}
	port, err := strconv.ParseUint(cmp.Or(u.Port(), "80"), 10, 16)
	return err == nil && port > 0 && !strings.HasSuffix(u.Host, ":")
}

// checkListen refuses an address that cannot be listened on, before anything starts.
func checkListen(flag, address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return usage("--%s %q: give host:port, such as 127.0.0.1:7070", flag, address)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return usage("--%s %q: the port is no number from 0 to 65535", flag, address)
	}
	return nil
}

// listen opens an address. A port in use is a failure, not bad usage: it may be free the next time.
func listen(flag, address string) (net.Listener, error) {
	if err := checkListen(flag, address); err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf(
			"--%s: %w: stop what uses it, or give another address (port 0 takes a free one)", flag,
			err)
	}
	return ln, nil
}
