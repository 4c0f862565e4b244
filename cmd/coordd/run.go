package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/actors/metrics"
	"github.com/coordd/coordd/actors/web"
	"github.com/coordd/coordd/internal/output"
	"github.com/coordd/coordd/internal/sdnotify"
	"github.com/coordd/coordd/supervisor"
	"github.com/spf13/cobra"
)

func (a *app) runCommand() *cobra.Command {
	var o runFlags
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run one member of a service",
		Long: `Runs one member of a service until SIGINT, SIGTERM or SIGHUP. It then stops its work,
hands everything over, and exits with code 0. A second SIGINT or SIGTERM ends it at once. With
--config SIGHUP does not stop it: it reads log-level, capacity and tags anew from the file. Files of
tokens and certificates, such as that of CONSUL_HTTP_TOKEN_FILE, are read again when they change.
With one of those SIGHUP does not stop it either.

With --exec it runs a shell command for each item that it owns. The command gets the item's payload
on standard input, and the variables COORDD_ITEM, COORDD_TOKEN, COORDD_GRANT, COORDD_MEMBER and
COORDD_SERVICE. The token rises with each start. Pass it on to what the command writes to: there a
late write of a former owner can be refused. When the item is to be given up, the command gets
SIGTERM, and SIGKILL after the stop timeout. A command that ends earlier is started again, after a
pause that grows. A guard process is the parent of the commands: while it lives, none outlives its
coordd. It hands the items of a killed coordd over, unless that is started again within
--restart-wait.

Without --exec the member takes no items: it can lead, and route. With --hold-items it takes items
for a service beside it, at --address.

With --route it takes HTTP requests for items and sends each to the member that owns the item.
docs/operators.md says what it answers.

Consul need not be there at the start: the member waits for it.`,
		Example: `  coordd run --id m1 --exec './poll-device.sh "$COORDD_ITEM"'
  coordd run --service billing --id m2 --consul 10.0.0.5:8500 --http 127.0.0.1:7070
  coordd run --id m3 --address 10.0.0.7:9000 --route :8080 --hold-items
  coordd run --lease 3s --check-ttl 1s --explain-timing`,
		Args: noArguments,
	}
	cmd.RunE = a.does(func(ctx context.Context, _ []string) error {
		if err := o.check(cmd); err != nil {
			return err
		}
		if o.explainTiming {
			return a.explainTiming(o)
		}
		return a.runMember(ctx, o, a.hangups(cmd))
	})
	cmd.Flags().SortFlags = false
	o.register(cmd)
	cmd.MarkFlagsMutuallyExclusive("exec", "hold-items")
	orders(cmd.Flags(), "explain-timing", "json")
	experts(cmd, "id", "service", "consul", "exec", "hold-items", "on-change", "stop-timeout",
		"max-restarts", "keep-items", "output", "pass-env", "http", "address", "route", "capacity",
		"zone", "ttl", "lease", "log-format", "log-level")
	return cmd
}

// check refuses what the flags say together, and gives a meaning to a quiet time of 0s: the
// shortest that there is. Without that 0 would mean the default.
func (o *runFlags) check(cmd *cobra.Command) error {
	for name, v := range map[string]*time.Duration{"leader-soak": &o.leaderSoak,
		"worker-soak": &o.workerSoak, "merge": &o.merge, "brake-time": &o.brakeHold,
		"lock-delay": &o.lockDelay, "restart-wait": &o.restartWait} {
		if cmd.Flags().Changed(name) && *v == 0 {
			*v = time.Millisecond
		}
	}
	if o.clientCAFile != "" && o.certFile == "" {
		return usage("--http-client-ca-file is for TLS: give --http-cert-file and " +
			"--http-key-file as well")
	}
	if o.beforeStart != "" && o.exec == "" {
		return usage("--before-start is for --exec: without that nothing is started")
	}
	if o.beforeStartTimeout <= 0 {
		return usage("--before-start-timeout %v: give a time above 0s", o.beforeStartTimeout)
	}
	if o.exec != "" {
		if err := checkMargin(o.leaseMargin); err != nil {
			return err
		}
	}
	if _, err := o.outputFlags.parse(); err != nil {
		return err
	}
	if err := o.checks.check(o.exec != "" || o.holdItems); err != nil {
		return err
	}
	return o.routeFlags.check(o.address)
}

// killSlack is how long a command that had to be killed may take before it is called stuck.
const killSlack = 5 * time.Second

// config is what the flags say of a member.
func (o *runFlags) config() actors.Config {
	return actors.Config{
		Service: o.service, ID: o.id, Address: o.address, Zone: o.zone, Version: version(),
		Host:        actors.Host{Copied: o.copiedHost},
		WorkVersion: o.appVersion, Tags: o.tags, Capacity: o.capacity,
		MaxRestarts: o.maxRestarts, OnChange: actors.OnChange(o.onChange),
		StopTimeout: o.stopTimeout + killSlack, KeepItems: o.keepItems,
		Timing: actors.Timing{TTL: o.ttl, Lease: o.lease, CheckTTL: o.guarded(), Renew: o.renew,
			LockDelay: o.lockDelay, LeaseMargin: o.leaseMargin, Grace: o.grace,
			LeaderSoak: o.leaderSoak, Merge: o.merge, WorkerSoak: o.workerSoak,
			MoveBudget: o.moveBudget.items, MoveBudgetShare: o.moveBudget.share,
			RestartWindow: o.restartWindow, BrakeHold: o.brakeHold},
		Backend: o.backend, ConfigLog: o.configLog,
	}
}

// process is what a member's process is made of.
type process struct {
	o       runFlags
	log     *slog.Logger
	cfg     actors.Config
	output  output.Config
	page    pageServer
	share   budget
	hist    *historyFile
	work    *commands // nil: it runs none
	metrics *metrics.Metrics
	member  *actors.Coordinator
	route   route
	root    *supervisor.Supervisor
}

func (a *app) runMember(ctx context.Context, o runFlags, reload *reloader) error {
	if o.id == "" {
		return usage(
			"--id is required: give each member an id of its own, such as --id $(hostname)")
	}
	log, err := a.logger(&o.logFlags)
	if err != nil {
		return err
	}
	systemd := openNotifier(log)
	defer systemd.Close()
	p := &process{o: o, log: log}
	defer p.close()
	if err := p.prepare(); err != nil {
		return err
	}
	// Bad usage has been refused: from here on something is written. The guard of a killed
	// predecessor looks for its successor, and does not wait long.
	leave, err := announce(o.service, o.id)
	if err != nil && o.exec != "" {
		return err
	}
	defer leave()
	if err := p.build(); err != nil {
		return err
	}
	children, err := p.children(ctx, reload, systemd)
	if err != nil {
		return err
	}
	p.root, err = supervisor.New("coordd", supervisor.Tree{Children: children},
		supervisor.WithLogger(log))
	if err != nil {
		return err
	}
	p.logStart()
	beginWork()
	err = p.root.Run(ctx)
	if bad := p.hist.close(); bad != nil {
		log.Error("history-incomplete", "err", bad)
	}
	if err != nil {
		return plain(err)
	}
	log.Info("stopped", "service", o.service, "member", o.id)
	return nil
}

// prepare reads what the flags name, and opens the page's address.
func (p *process) prepare() error {
	client, address, err := p.o.client()
	if err != nil {
		return err
	}
	p.cfg = p.o.config()
	p.cfg.Client, p.cfg.Consul, p.cfg.Logger = client, address, p.log
	if err := p.cfg.Validate(); err != nil {
		return err
	}
	if p.page, err = openPage(p.o.http, p.o.httpHosts...); err != nil {
		return err
	}
	p.share = budgetOf(descriptors(), p.o.route != "")
	if p.page.door != nil {
		p.page.conns, p.page.log = p.share.page, p.log
		if p.page.access, err = p.o.accessFlags.open(); err != nil {
			return err
		}
	}
	if p.cfg.Address == "" {
		p.cfg.Address = p.page.published()
	}
	if p.o.exec != "" {
		if p.output, err = p.o.outputFlags.open(); err != nil {
			return err
		}
	}
	p.hist, err = openHistory(p.o.history)
	return err
}

// build makes the member and what runs its commands.
func (p *process) build() (err error) {
	p.cfg.Liveness = idleLiveness(p.o.service, p.o.id)
	if p.o.holdItems {
		p.cfg.Work = hold
	}
	if p.o.exec != "" {
		if p.work, err = newCommands(p.o, p.output, p.leaseMargin(), p.log); err != nil {
			return err
		}
		p.cfg.Work, p.cfg.Liveness, p.cfg.Lock = p.work.work, p.work.liveness,
			p.work.guard.LockID
	}
	p.cfg.Work = newChecks(p.o.checks, p.o.id, p.o.service, p.o.passEnv, p.log).wrap(p.cfg.Work)
	p.cfg.Work = p.hist.wrap(p.cfg.Work)
	if p.page.door != nil {
		p.metrics = metrics.New()
		p.cfg.Observer = p.metrics
	}
	if p.member, err = actors.New(p.cfg); err != nil {
		return err
	}
	p.route, err = openRoute(p.o.routeFlags, p.member.Router(), p.cfg.Address, p.share.route,
		p.log)
	return err
}

// leaseMargin is the margin that the member will use.
func (p *process) leaseMargin() time.Duration {
	if p.cfg.LeaseMargin != 0 {
		return p.cfg.LeaseMargin
	}
	if p.cfg.Lease != 0 {
		return p.cfg.Lease / 10
	}
	return p.cfg.TTL / 10
}

// children are the actors. They are started in this order and stopped in reverse.
func (p *process) children(ctx context.Context, reload *reloader,
	systemd *sdnotify.Notifier) (all []supervisor.Child, err error) {
	if p.work != nil {
		all = p.work.children(p.member.Session(), p.member.Membership())
	}
	if p.page.door != nil {
		p.page.access.warn(p.log, p.page.address(), p.member.ConfigStore().Enabled())
		all = append(all, p.pageChild(ctx))
	}
	all = append(append(all, p.route.children()...), p.hist.begin(p.member, p.log)...)
	coordinator := p.member.Child("coordinator")
	notify := &notifier{to: systemd, log: p.log, changed: p.member.Membership(),
		condition: func() condition { return conditionOf(p.member) },
		stop:      coordinator.StopTimeout + p.o.stopTimeout + guardSlack}
	if reload != nil {
		reload.log, reload.begun, reload.apply = p.log, notify.reloading, p.reloaded()
		all = append(all, reload.child())
	}
	all = append(all, coordinator)
	if systemd != nil {
		all = append(all, notify.child())
	}
	return all, nil
}

// pageChild serves the page.
func (p *process) pageChild(ctx context.Context) supervisor.Child {
	var outputLost func() uint64
	if p.work != nil && p.o.output != rawOutput {
		outputLost = p.work.guard.OutputLost
	}
	handler := func(o web.Options) http.Handler { return web.New(p.member, o) }
	return p.page.child(handler, p.cfg.Consul, web.Options{
		Stopping: ctx.Done(), Report: func() supervisor.Report { return p.root.Report() },
		Metrics: metrics.Handler(p.metrics.Collector(p.member, metrics.Options{
			Process:    func() *supervisor.Supervisor { return p.root },
			OutputLost: outputLost}))})
}

// reloaded are the settings that a reload can change.
func (p *process) reloaded() map[string]func(string) error {
	return map[string]func(string) error{
		"log-level": p.o.setLevel,
		"capacity": func(text string) error {
			capacity, err := strconv.ParseUint(text, 10, 64)
			if err == nil {
				p.member.SetCapacity(capacity)
			}
			return err
		},
		"tags": func(text string) error {
			return p.member.SetTags(strings.FieldsFunc(text, func(r rune) bool {
				return r == ','
			})...)
		}}
}

func (p *process) logStart() {
	s := p.member.Settings()
	p.log.Info("starting", "service", p.o.service, "member", p.o.id, "consul", p.cfg.Consul,
		"version", version(), "pid", os.Getpid(), "ttl", s.TTL.String(), "lease", s.Lease.String(),
		"renew", s.Renew.String(), "lease_margin", s.LeaseMargin.String(), "check_ttl",
		checkTTL(s.CheckTTL).String(), "grace", s.Grace.String(), "stop_timeout",
		p.o.stopTimeout.String(), "restart_wait", p.o.restartWait.String(), "exec", p.o.exec,
		"takes_items", p.cfg.Work != nil, "http", p.page.address(), "route", p.route.address(),
		"backend", s.Backend, "config_log", s.ConfigLog)
}

func (p *process) close() {
	p.page.close()
	p.route.close()
}

// hold is the work of a member that holds items without a command. It stands still whenever this
// process does.
func hold(ctx context.Context, _ actors.Item) error {
	began := time.Now()
	<-ctx.Done()
	stood(ctx, began, time.Now())
	return nil
}

// plain finds the cause under the escalations that passed it on, where that is all there is to say.
func plain(err error) error {
	if !errors.Is(err, actors.ErrIDTaken) && !errors.Is(err, actors.ErrInvalid) &&
		!errors.Is(err, configstore.ErrLog) {
		return fmt.Errorf("gave up: %w", err)
	}
	for {
		e, ok := errors.AsType[*supervisor.EscalationError](err)
		if !ok || len(e.Causes) == 0 {
			return err
		}
		err = e.Causes[len(e.Causes)-1].Err
	}
}
