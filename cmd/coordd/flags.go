package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/coordd/coordd/actors"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// envName is the variable that stands for a flag.
func envName(flag string) string {
	return "COORDD_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// neverEmpty are the flags that may not be empty on the command line or in a settings file. Of a
// script or a template whose variable is empty, they would ask about something else, do it there,
// or leave a protection out.
var neverEmpty = slices.Concat(consulNames, accessNames, []string{"prefix", "zookeeper",
	"zookeeper-auth-file", "zookeeper-ca-file", "zookeeper-cert-file", "zookeeper-key-file",
	"route-host", "route-trust", "address", "config-log", "history", "output", "payload-file",
	"member", "state", "drain", "without"})

func errEmpty(name string) error {
	return fmt.Errorf("%s is empty: give a value, or leave it out", name)
}

// checkGiven looks at what is given on the command line, before anything else has set a flag.
func checkGiven(flags *pflag.FlagSet) error {
	for _, name := range neverEmpty {
		f := flags.Lookup(name)
		if f == nil || !f.Changed {
			continue
		}
		if value := f.Value.String(); value == "" || value == "[]" {
			return usage("--%v", errEmpty(name))
		}
	}
	return nil
}

// commandLineOnly marks the flags that are orders.
const commandLineOnly = "coordd_order"

// orders says that these flags are no settings: each makes another command of the one that was
// given, or its variable is one that commands are given ([forCommands]). A variable that is set for
// a whole host must not do that, so no variable stands for them, and no line of a settings file.
func orders(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		// it fails only for a flag that is not there
		_ = flags.SetAnnotation(name, commandLineOnly, nil)
	}
}

func isOrder(f *pflag.Flag) bool {
	_, order := f.Annotations[commandLineOnly]
	return order
}

// fromEnvironment sets the flags that the command line did not from their
// variables. An empty variable counts as none, but for --http, where empty means off.
// What looks at several flags together has to do so later.
func (a *app) fromEnvironment(cmd *cobra.Command) error {
	flags, all := cmd.Flags(), flagsOf(cmd.Root())
	var err error
	flags.VisitAll(func(f *pflag.Flag) {
		if err != nil || f.Changed || f.Name == "help" || f.Name == "version" {
			return
		}
		name := envName(f.Name)
		if slices.Contains(forCommands, name) { // of the item whose command this may be
			return
		}
		value, ok := a.env(name)
		if f.Name == "backend" && value == "" { // what the system before this one calls it
			name = "BACKEND"
			value, ok = a.env(name)
		}
		if !ok || (value == "" && f.Name != "http") {
			return
		}
		if isOrder(f) {
			// It may be meant for another command, of which it is a setting, and which is not run.
			if elsewhere := all[f.Name]; !isOrder(elsewhere) && elsewhere.Value.Set(value) == nil {
				return
			}
			if value != f.DefValue {
				err = usage("the environment variable %s is %q, and an order is taken from the "+
					"command line only: unset it, and give --%s to mean it",
					name, value, f.Name)
			}
			return
		}
		if bad := flags.Set(f.Name, value); bad != nil {
			err = usage("the environment variable %s is %q: %v", name, value,
				reason(inWords(flags, bad)))
			return
		}
		a.taken = append(a.taken, setting{flag: f.Name, name: name, value: value})
	})
	return err
}

// setting is a variable of the environment, or a line of the settings file, that stood for a flag.
type setting struct {
	flag, name, value string
	file              bool // name is the file and the line
}

// taken are the settings that came from the environment or the settings file.
type taken []setting

// has tells whether the flag was set by a variable or the file: it may be meant for other commands.
func (t taken) has(flag string) bool {
	return slices.ContainsFunc(t, func(s setting) bool { return s.flag == flag })
}

// behind says where the settings came from that an error speaks of, by their flag or by their
// value: a user may not know that they are set. The others have nothing to do with it.
func (t taken) behind(text string) string {
	var variables, lines []string
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r)
	})
	text = smooth(text)
	for _, s := range t {
		named := strings.Contains(text, smooth(s.flag))
		if len(s.flag) <= 3 { // "id" is in many words
			named = slices.Contains(words, s.flag)
		}
		if named ||
			strings.Contains(text, smooth(fmt.Sprintf("%q", s.value))) {
			value, _ := actors.SplitAddress(s.value)
			switch {
			case !s.file:
				variables = append(variables, fmt.Sprintf("%s=%q", s.name, value))
			case !strings.Contains(text, smooth(s.name)): // else the error names the line itself
				lines = append(lines, fmt.Sprintf("%s: %s: %q", s.name, s.flag, value))
			}
		}
	}
	said := ""
	if len(variables) > 0 {
		said = " (from the environment: " + strings.Join(variables, ", ") + ")"
	}
	if len(lines) > 0 {
		said += " (from " + strings.Join(lines, ", ") + ")"
	}
	return said
}

// smooth makes lock-delay, LockDelay and lock delay one word.
func smooth(s string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "", " ", "").Replace(s))
}

// inWords says plainly what pflag says of a number or a time in those of Go's library.
func inWords(flags *pflag.FlagSet, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if unknown.GetSpecifiedShortnames() != "" {
			return fmt.Errorf("%w: a name that begins with a dash goes behind \"--\"", err)
		}
		if best := alike(unknown.GetSpecifiedName(), namesOf(flags)); len(best) > 0 {
			return fmt.Errorf("%w: did you mean --%s?", err, strings.Join(best, " or --"))
		}
	}
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	what := ""
	switch bad, number := errors.AsType[*strconv.NumError](invalid); {
	case invalid.GetFlag().Value.Type() == "duration":
		what = "give a time with its unit, such as 500ms, 10s or 5m"
	case invalid.GetFlag().Value.Type() == "bool":
		what = "give true or false"
	case !number:
		return err
	case errors.Is(bad, strconv.ErrRange):
		what = "the number is too large or too small"
	case strings.HasPrefix(invalid.GetFlag().Value.Type(), "uint"):
		what = "give a whole number of 0 or more"
	default:
		what = "it is not a whole number"
	}
	return fmt.Errorf("invalid argument %q for \"--%s\" flag: %s", invalid.GetValue(),
		invalid.GetFlag().Name, what)
}

// namesOf returns the names of the flags that people are told of.
func namesOf(flags *pflag.FlagSet) []string {
	var names []string
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return names
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
	service string
	consulFlags
}

func (s *serviceFlags) register(f *pflag.FlagSet) {
	f.StringVar(&s.service, "service", "coordd",
		"The `name` of the service. Members of one name share one workload.")
	s.consulFlags.register(f)
}

// checkConsul refuses an address of Consul's that is not of the form that is asked for.
func checkConsul(address string) error {
	scheme, rest, isURL := strings.Cut(address, "://")
	if !isURL {
		_, port, err := net.SplitHostPort(address)
		if err != nil || port == "" || !canBeReached(address) {
			return usage("--consul %q: give host:port, such as 127.0.0.1:8500, or a URL", address)
		}
		return nil
	}
	if rest == "" || (scheme != "http" && scheme != "https" && scheme != "unix") {
		return usage("--consul %q: give a URL that begins with http://, https:// or unix://",
			address)
	}
	if !canBeReached(address) {
		return usage("--consul %q: its host, or its port, is none", address)
	}
	return nil
}

// canBeReached tells whether anything can be reached at an address: a host with or without a port.
// As every Consul tool takes it, it may be a URL, with a path if a proxy needs one.
func canBeReached(address string) bool {
	scheme, host, isURL := strings.Cut(address, "://")
	if !isURL {
		host = address
	} else if scheme == "unix" {
		return host != ""
	} else {
		host, _, _ = strings.Cut(host, "/")
	}
	if host == "" || strings.ContainsAny(host, "/?#@") || strings.ContainsFunc(host,
		func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return false
	}
	_, port, err := net.SplitHostPort(host)
	if err != nil { // without a port, or an IPv6 address that needs brackets
		return !strings.Contains(host, ":") || strings.HasPrefix(host, "[") &&
			strings.HasSuffix(host, "]")
	}
	n, err := strconv.ParseUint(cmp.Or(port, "80"), 10, 16)
	return err == nil && n > 0
}

// operator returns the operators' side of the service, and Consul's address.
func (s *serviceFlags) operator(ctx context.Context) (*actors.Operator, string, error) {
	client, address, err := s.client(ctx)
	if err != nil {
		return nil, "", err
	}
	o, err := actors.NewOperator(client, s.service)
	if err != nil {
		return nil, "", usage("--service: %v", err)
	}
	return o.As(whoami()), address, nil
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

// listen opens an address. What is in the way is a failure, not bad usage: it may be gone the next
// time.
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
