package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/metrics"
	"github.com/coordd/coordd/actors/web"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/supervisor"
	"github.com/spf13/cobra"
)

type devFlags struct {
	logFlags
	service, http, consulAddr string
	httpHosts                 []string
	members, items            int
	pprof                     bool
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
		Short: "Run a whole cluster in this process, to see how it works",
		Long: `Runs an embedded Consul, some members and a workload in this one process, and
serves a page that shows who has what. Nothing is kept: when it ends, all of it
is gone. The work of each item does nothing but wait.

Other commands can take part while it runs: they find its Consul at the address
that it prints. Ctrl-C stops it.`,
		Example: `  coordd dev
  coordd dev --members 5 --items 10000
  coordd dev --http '' --consul-addr 127.0.0.1:8500`,
		Args: noArguments,
		RunE: a.does(func(ctx context.Context, _ []string) error { return a.runDev(ctx, o) }),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.service, "service", "coordd", "The `name` of the service.")
	f.IntVar(&o.members, "members", 3, "The `number` of members, named n1, n2 and so on.")
	f.IntVar(&o.items, "items", 100,
		"The `number` of work items, named device_group_0001 and so on.")
	f.StringVar(&o.http, "http", "127.0.0.1:7070",
		"The `address` to serve the page on; '' switches it off.")
	hostsFlag(f, &o.httpHosts, "http-host", "the page or the embedded Consul")
	pprofFlag(f, &o.pprof)
	f.StringVar(&o.consulAddr, "consul-addr", "127.0.0.1:0",
		"The `address` for the embedded Consul. Port 0 takes a free one.")
	o.logFlags.register(cmd)
	return cmd
}

func (a *app) runDev(ctx context.Context, o devFlags) error {
	if o.members < 1 || o.members > maxDevMembers {
		return usage("--members %d: give 1 to %d", o.members, maxDevMembers)
	}
	if o.items < 0 || o.items > maxDevItems {
		return usage("--items %d: give 0 to %d", o.items, maxDevItems)
	}
	log, err := a.logger(&o.logFlags)
	if err != nil {
		return err
	}
	consul := devconsul.New(devconsul.Config{Hosts: append(o.httpHosts, o.consulAddr),
		HostsFlag: "--http-host"})
	defer consul.Close()
	client := consul.Client()
	op, err := actors.NewOperator(client, o.service)
	if err != nil {
		return usage("--service: %v", err)
	}
	consulLn, err := listen("consul-addr", o.consulAddr)
	if err != nil {
		return err
	}
	defer consulLn.Close()
	page, err := openPage(o.http, o.httpHosts...)
	if err != nil {
		return err
	}
	if page != nil {
		page.log, page.pprof = log, o.pprof
	}
	defer page.close()

	members := make([]*actors.Coordinator, o.members)
	var shown []metrics.Collector
	parts := supervisor.Tree{StopTogether: true}
	for i := range members {
		counted := metrics.New()
		members[i], err = actors.New(actors.Config{
			Service: o.service, ID: fmt.Sprintf("n%d", i+1), Client: client, Logger: log,
			Address: page.published(), Version: version(), LeaderSoak: time.Second, Work: hold(log),
			Observer: counted,
		})
		if err != nil {
			return err
		}
		shown = append(shown, counted.Collector(members[i], metrics.Options{}))
		parts.Children = append(parts.Children, members[i].Child(members[i].ID()))
	}
	if err := op.AddWork(ctx, devItems(o.items)...); err != nil {
		return err
	}
	children := []supervisor.Child{{
		// Its listener cannot be opened twice: a Consul that fails ends it all.
		Name: "consul", Gate: true, Run: func(ctx context.Context) error {
			return supervisor.Escalate(consul.Serve(ctx, consulLn, func(net.Addr) {
				supervisor.Ready(ctx)
			}))
		},
	}}
	var root *supervisor.Supervisor
	if page != nil {
		children = append(children, page.child(members[0], consulLn.Addr().String(), web.Options{
			Members: members[1:], Stopping: ctx.Done(),
			Report:  func() supervisor.Report { return root.Report() },
			Metrics: metrics.Handler(shown...)}))
	}
	children = append(children, supervisor.Child{Name: "members", Tree: &parts})
	root, err = supervisor.New("coordd", supervisor.Tree{Children: children},
		supervisor.WithLogger(log))
	if err != nil {
		return err
	}
	if _, err := fmt.Fprint(a.out, devWelcome(o, page.address(),
		consulLn.Addr().String())); err != nil {
		return err
	}
	if err := root.Run(ctx); err != nil {
		return plain(err)
	}
	return nil
}

func devItems(n int) []actors.WorkInput {
	items := make([]actors.WorkInput, n)
	for i := range items {
		id := fmt.Sprintf("device_group_%04d", i+1)
		items[i] = actors.WorkInput{ID: id, Payload: fmt.Appendf(nil, "payload of %s\n", id)}
	}
	return items
}

func devWelcome(o devFlags, page, consul string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s share %s. All of it is in this process, and gone when it ends.\n\n",
		count(o.members, "member"), count(o.items, "item"))
	if page != "" {
		fmt.Fprintf(&b, "  page     http://%s/\n", page)
	}
	fmt.Fprintf(&b, "  Consul   %s\n\n", consul)
	with := " --consul " + consul
	if o.service != "coordd" {
		with = " --service " + o.service + with
	}
	coordd := command(os.Args[0])
	fmt.Fprintf(&b,
		"Try, from another terminal:\n\n  %[1]s status%[2]s\n  %[1]s work add my-item%[2]s\n  "+
			"%[1]s run --id n%[3]d%[2]s\n\nCtrl-C stops it.\n\n",
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

// count is "1 member" or "3 members".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
