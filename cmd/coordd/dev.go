package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/actors/web"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/supervisor"
	"github.com/spf13/cobra"
)

type devFlags struct {
	logFlags
	service, http, consulAddr string
	members, items            int
	consulOnly                bool
}

// What one process can be asked to play.
const (
	maxDevMembers = 100
	maxDevItems   = 100_000
)

func (a *app) devCommand() *cobra.Command {
	var o devFlags
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a whole cluster on this machine, to see how it works",
		Long: `Runs an embedded Consul, some members and a workload, and serves a page that shows who
has what. Each member is a process of its own. The work of each item does nothing but wait. All of
it is gone when this process ends.

The page has buttons in each member's row: kill its process and start it again, freeze it and thaw
it, cut it off from Consul and reconnect it, drain it and undrain it. What it had runs elsewhere
within ten seconds. There are no buttons where --http is not on loopback: the page has no login.

Other commands can take part: they find its Consul at the address that it prints. Ctrl-C stops it.

With --consul-only it runs the embedded Consul alone, for tests of other programs. That Consul
keeps everything in memory and has no access control.`,
		Example: `  coordd dev
  coordd dev --members 5 --items 10000
  coordd dev --consul-only --consul-addr 127.0.0.1:8500`,
		Args: noArguments,
		RunE: a.does(func(ctx context.Context, _ []string) error {
			log, err := a.logger(&o.logFlags)
			if err != nil {
				return err
			}
			if o.consulOnly {
				return a.runConsul(ctx, o, log)
			}
			return a.runDev(ctx, o, log)
		}),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.service, "service", "coordd", "The `name` of the service.")
	f.IntVar(&o.members, "members", 3,
		"The `number` of members, named n1, n2 and so on: each a process of some 25 MB.")
	f.IntVar(&o.items, "items", 100,
		"The `number` of work items, named device_group_0001 and so on.")
	f.StringVar(&o.http, "http", "127.0.0.1:7070",
		"The `address` to serve the page on; '' switches it off.")
	f.StringVar(&o.consulAddr, "consul-addr", "127.0.0.1:0",
		"The `address` for the embedded Consul. Port 0 takes a free one.")
	f.BoolVar(&o.consulOnly, "consul-only", false, "Run the embedded Consul alone.")
	orders(f, "consul-only")
	o.logFlags.register(f)
	return cmd
}

// runConsul runs the embedded Consul alone.
func (a *app) runConsul(ctx context.Context, o devFlags, log *slog.Logger) error {
	ln, err := listen("consul-addr", o.consulAddr)
	if err != nil {
		return err
	}
	server := devconsul.New(devconsul.Config{Logger: log, Hosts: []string{o.consulAddr},
		HostsFlag: "--consul-addr"})
	defer server.Close()
	beginWork()
	at := ln.Addr().String()
	fmt.Fprintf(a.out, "Consul's API is at http://%s; everything is gone when this ends.\n", at)
	log.Info("listening", "addr", at)
	return server.Serve(ctx, ln)
}

func (a *app) runDev(ctx context.Context, o devFlags, log *slog.Logger) error {
	if o.members < 1 || o.members > maxDevMembers {
		return usage("--members %d: give 1 to %d", o.members, maxDevMembers)
	}
	if o.items < 0 || o.items > maxDevItems {
		return usage("--items %d: give 0 to %d", o.items, maxDevItems)
	}
	consul := devconsul.New(devconsul.Config{Hosts: []string{o.consulAddr},
		HostsFlag: "--consul-addr"})
	defer consul.Close()
	op, err := operator.New(consul.Client(), o.service)
	if err != nil {
		return usage("--%v", err)
	}
	op = op.As(whoami())
	consulLn, err := listen("consul-addr", o.consulAddr)
	if err != nil {
		return err
	}
	defer consulLn.Close()
	page, err := openPage(o.http)
	if err != nil {
		return err
	}
	page.log = log
	defer page.close()
	members, err := a.devMembers(o, log)
	if err != nil {
		return err
	}
	if err := op.AddWork(ctx, devItems(o.items)...); err != nil {
		return err
	}
	// A listener cannot be opened twice: a Consul that fails ends it all.
	serves := func(ln net.Listener) func(context.Context) error {
		return func(ctx context.Context) error {
			supervisor.Ready(ctx)
			return supervisor.Escalate(consul.Serve(ctx, ln))
		}
	}
	var toConsul supervisor.Tree
	processes := supervisor.Tree{StopTogether: true}
	for _, m := range members {
		toConsul.Children = append(toConsul.Children, supervisor.Child{Name: m.id, Gate: true,
			Run: serves(m.way)})
		processes.Children = append(processes.Children, m.child())
	}
	children := []supervisor.Child{{Name: "consul", Gate: true, Run: serves(consulLn)},
		{Name: "ways-to-consul", Tree: &toConsul}}
	var root *supervisor.Supervisor
	if page.door != nil {
		options := web.Options{Stopping: ctx.Done(),
			Report: func() supervisor.Report { return root.Report() }}
		if loopback(page.address()) { // the buttons need no password
			options.Actions = &devActions{op, members}
		}
		children = append(children, page.child(func(o web.Options) http.Handler {
			return web.NewObserver(op, o)
		}, consulLn.Addr().String(), options))
	}
	children = append(children, supervisor.Child{Name: "members", Tree: &processes})
	root, err = supervisor.New("coordd", supervisor.Tree{Children: children},
		supervisor.WithLogger(log))
	if err != nil {
		return err
	}
	fmt.Fprint(a.out, devWelcome(o, page.address(), consulLn.Addr().String()))
	works.Store(true)
	if err := root.Run(ctx); err != nil {
		return plain(err)
	}
	return nil
}

// devMembers are the members, each with its way to Consul.
func (a *app) devMembers(o devFlags, log *slog.Logger) (members []*devMember, err error) {
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding the binary that the members run: %w", err)
	}
	for i := range o.members {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("a member's way to Consul: %w", err)
		}
		id := fmt.Sprintf("n%d", i+1)
		members = append(members, &devMember{id: id, path: path, way: newDevWay(ln), log: log,
			again: make(chan struct{}, 1), stderr: a.err, env: bareEnvironment(a.environ),
			args: []string{"run", "--id", id, "--service", o.service, "--hold-items",
				"--consul", ln.Addr().String(), "--http", "127.0.0.1:0",
				"--lease", devLease.String(), "--check-ttl", devCheckTTL.String(),
				"--leader-soak", devLeaderSoak.String(),
				"--log-format", o.format, "--log-level", o.level}})
	}
	return members, nil
}

func devItems(n int) []operator.WorkInput {
	items := make([]operator.WorkInput, n)
	for i := range items {
		id := fmt.Sprintf("device_group_%04d", i+1)
		items[i] = operator.WorkInput{ID: id, Payload: fmt.Appendf(nil, "payload of %s\n", id)}
	}
	return items
}

func devWelcome(o devFlags, page, consul string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s share %s. All of it is gone when this process ends.\n\n",
		count(o.members, "member"), count(o.items, "item"))
	if page != "" {
		fmt.Fprintf(&b, "  page     http://%s/\n", page)
	}
	fmt.Fprintf(&b, "  Consul   %s\n\n", consul)
	if page != "" && loopback(page) {
		b.WriteString("The page has buttons: kill a member, freeze it, cut it off, drain it. " +
			"What it had runs\nelsewhere within ten seconds.\n\n")
	}
	with := " --consul " + consul
	if o.service != "coordd" {
		with = " --service " + o.service + with
	}
	coordd := command(os.Args[0])
	fmt.Fprintf(&b,
		"Try, from another terminal:\n\n  %[1]s status%[2]s\n  %[1]s work add my-item%[2]s\n  "+
			"%[1]s run --id n%[3]d --exec 'echo \"$COORDD_ITEM runs here\"; exec sleep 1000'"+
			"%[2]s\n\nCtrl-C stops it.\n\n",
		coordd, with, o.members+1)
	return b.String()
}

// command is what to type for this binary: its name, or what ran it, where the name alone is not
// found.
func command(path string) string {
	if _, err := exec.LookPath("coordd"); err == nil || filepath.Base(path) == path {
		return "coordd"
	}
	if strings.Contains(path, "go-build") { // go run's, gone when it ends
		return "go run ./cmd/coordd"
	}
	return path
}
