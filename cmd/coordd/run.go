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
	"github.com/coordd/coordd/supervisor"
	"github.com/spf13/cobra"
)

// runFlags are the settings of one member.
type runFlags struct {
	serviceFlags
	logFlags
	id, exec, http, address, zone, appVersion string
	history                                   string
	backend, configLog                        string
	httpHosts                                 []string
	capacity                                  uint64
	moveBudget                                moveBudget
	itemCooldown                              time.Duration
	ttl, lease, renew, lockDelay              time.Duration
	leaseMargin, grace, checkTTL              time.Duration
	leaderSoak, workerSoak, merge             time.Duration
	stopTimeout, brakeHold                    time.Duration
	accessFlags
	routeFlags
	outputFlags
	passEnv       []string
	keepItems     time.Duration
	restartWait   time.Duration
	holdItems     bool
	pprof         bool
	publish       bool
	tags          []string
	onChange      onChange
	maxRestarts   int
	restartWindow time.Duration

	explainTiming, json bool
}

func (a *app) runCommand() *cobra.Command {
	var o runFlags
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run one member of a service",
		Long: `Runs one member of a service until it is told to stop by SIGINT, SIGTERM or
SIGHUP. It then stops its work, hands everything over, and exits with code 0. A second
SIGINT or SIGTERM ends it at once. With --config SIGHUP does not stop it: it reads the file
again and takes log-level, capacity and tags from it. What else has changed is named in the
log, and waits for a restart.

With --route it takes HTTP requests for items and sends each to the member that
owns the item, at the address that this member was given with --address: any
member, or all of them, can do so. See docs/operators.md for what it answers.

With --exec it runs a shell command for each item that it owns, in a process
group of its own. The command gets the item's payload on standard input, and
these variables: COORDD_ITEM, COORDD_TOKEN, COORDD_MEMBER and COORDD_SERVICE.
The token rises each time an item changes hands: pass it on to whatever the
command writes to, so that a late write of a former owner can be refused. When the
item is to be given up, the command gets SIGTERM, and SIGKILL after the stop
timeout. A command that ends while the item is still owned is started again, after a
pause that grows. No command outlives its coordd, and when coordd was killed, what
is left of it hands the items over, unless it is started again within --restart-wait.

Without --exec the member takes no items: it is registered, can lead, and locates and
routes. With --hold-items it takes them all the same: for a service beside it that works
on what is routed to it, or for trying out.

Consul need not be there at the start: the member waits for it and says so.

With --explain-timing it prints what the settings given mean in seconds, and ends.`,
		Example: `  coordd run --id m1 --exec './poll-device.sh "$COORDD_ITEM"'
  coordd run --service billing --id m2 --consul 10.0.0.5:8500 --http 127.0.0.1:7070
  coordd run --id m3 --address 10.0.0.7:9000 --route :8080 --hold-items
  COORDD_ID=m4 COORDD_TTL=20s coordd run
  coordd run --lease 3s --check-ttl 1s --explain-timing`,
		Args: noArguments,
	}
	cmd.RunE = a.does(func(ctx context.Context, _ []string) error {
		reload := a.hangups(cmd.Flags(), flagsOf(cmd.Root()))
		if err := o.soften(cmd); err != nil {
			return err
		}
		if o.explainTiming {
			a.printUnknown()
			return a.explainTiming(o)
		}
		if o.json && !a.taken.has("json") {
			return usage("--json is for --explain-timing: the log has --log-format json")
		}
		return a.runMember(ctx, o, o.idle(cmd.Flags(), a.taken), reload)
	})
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.id, "id", "",
		"The `id` of this member, unique in the service and without a slash. Required.")
	o.serviceFlags.register(f)
	f.StringVar(&o.exec, "exec", "",
		"The shell `command` to run for each item that this member owns.")
	f.BoolVar(&o.holdItems, "hold-items", false,
		"Take items though no command runs for them: the service at --address works on what is "+
			"routed to it.")
	f.StringVar(&o.http, "http", "",
		"The `address` to serve the page, /healthz, /readyz, /metrics and the API below /v1/ on, "+
			"such as 127.0.0.1:7070. Without it there is none.")
	hostsFlag(f, &o.httpHosts, "http-host", "the page")
	o.accessFlags.register(f)
	pprofFlag(f, &o.pprof)
	f.StringVar(&o.history, "history", "",
		"the `file` to append a history to, for coordd verify (default: none)")
	f.StringVar(&o.backend, "backend", actors.BackendNone,
		"Where the service's configuration is `kept`: none, or consul (then --http serves it "+
			"below /config/). BACKEND in the environment means the same.")
	f.StringVar(&o.configLog, "config-log", "",
		"The `directory` of a log of configuration writes, which then survive a crash and an "+
			"outage of Consul. Without it there is none.")
	f.StringVar(&o.address, "address", "",
		"The `address`, host:port, of the service beside this member. It is published: --route "+
			"sends requests there. Without it: that of --http, else the host's name.")
	f.StringVar(&o.zone, "zone", "", "The `zone` that this member is in. It is "+
		"published. Items that move stay in their zone where they can.")
	f.StringVar(&o.appVersion, "app-version", "",
		"The `version` of what this member runs. It is published. While members show different "+
			"ones, items that move prefer those of the version that came last, up to twice a "+
			"share. Without it loads stay even.")
	f.StringSliceVar(&o.tags, "tags", nil,
		"More `tags` of this member in Consul's catalog, separated by commas, beside leader and "+
			"draining.")
	f.BoolVar(&o.publish, "publish-items", false,
		"Show the items that this member runs in Consul's catalog, in the metadata of its "+
			"instance: as many ids as fit into 4 KB, as they were up to 30 s ago.")
	f.Uint64Var(&o.capacity, "capacity", 0,
		"The most `weight` that this member may hold. 0 means no limit.")
	f.DurationVar(&o.ttl, "ttl", 10*time.Second,
		"The `time` of silence after which Consul ends this member's session, once or twice as "+
			"long: 2s to 24h, and no less than its session_ttl_min, 10s by default.")
	f.DurationVar(&o.lease, "lease", 0,
		"The `time` of silence after which this member stops its work: 2s to the ttl. Others take "+
			"over when that has passed since the end of the session. Without it: the ttl.")
	f.Var((*checkTTL)(&o.checkTTL), "check-ttl",
		"The `time` of silence after which Consul takes this member for lost, by a health check "+
			"at its Consul agent: 1s to the ttl, or none. Without it: 13/20 of the lease; "+
			"with --exec the lease, or --restart-wait and 2s if that is longer, for the guard to "+
			"say goodbye.")
	f.DurationVar(&o.renew, "renew", 0,
		"The `time` between two renewals of the session. Without it: a third of the lease.")
	f.DurationVar(&o.leaseMargin, "lease-margin", 0,
		"The `time` before the end of the lease at which work is told to stop. Without it: a "+
			"tenth of the lease.")
	f.DurationVar(&o.grace, "grace", 0,
		"The `time` for which a vanished member's items wait for it, if that is longer than the "+
			"lease that it may hold.")
	f.DurationVar(&o.lockDelay, "lock-delay", time.Millisecond,
		"The `time` for which Consul keeps a lock from being taken after its session has ended: "+
			"1ms to 60s.")
	f.DurationVar(&o.leaderSoak, "leader-soak", 5*time.Second,
		"The quiet `time` before items are moved only for balance.")
	f.DurationVar(&o.merge, "merge", 250*time.Millisecond,
		"The quiet `time` before free items are placed, so that changes are planned together.")
	f.DurationVar(&o.workerSoak, "worker-soak", 500*time.Millisecond,
		"The `time` from the assignment of an item to the start of its work. What is taken over "+
			"from a lost member starts without it.")
	o.moveBudget = moveBudget{items: 1000}
	f.Var(&o.moveBudget, "move-budget",
		"The most `items` that are on the move at one time for balance, or from drained members: "+
			"a number, or a share of the workload, such as 5%.")
	f.DurationVar(&o.itemCooldown, "item-cooldown", 0,
		"The `time` for which an item stays where it was placed before it is moved for balance "+
			"again. 0s: it may be moved at once.")
	f.Var(&o.onChange, "on-change",
		"What becomes of a running command whose item's payload is changed: `keep` lets it go on "+
			"until it is started the next time; restart stops it and starts it again with the new "+
			"payload, at the same member; signal writes the payload to the file that "+
			"COORDD_PAYLOAD_FILE names and sends the command SIGHUP.")
	f.IntVar(&o.maxRestarts, "max-restarts", 0,
		"How `often` the command of an item is started again after it has ended by itself, within "+
			"--restart-window. Then the item is tried at one other member, and where that fails "+
			"too it is quarantined: nobody runs it until coordd restart. 0 means for ever.")
	f.DurationVar(&o.restartWindow, "restart-window", 10*time.Minute,
		"The `time` within which --max-restarts counts: 1s to 24h.")
	f.DurationVar(&o.stopTimeout, "stop-timeout", 10*time.Second,
		"The `time` from SIGTERM to SIGKILL when a command is stopped.")
	secretFlags(f, &o.passEnv)
	o.outputFlags.register(f)
	f.DurationVar(&o.restartWait, "restart-wait", 500*time.Millisecond,
		"The `time` for which the items of a coordd that was killed wait for it to be started "+
			"again on this host, before its guard hands them over. Only with --exec. Above twice "+
			"the ttl: for ever, and they wait for the session.")
	f.DurationVar(&o.keepItems, "keep-items", 0,
		"The `time` for which this member's items wait for it after a clean stop, so that a "+
			"rollout moves none of them. Without it they are handed over at once.")
	f.DurationVar(&o.brakeHold, "brake-hold", 0,
		"The `time` for which the leader holds back when more than half of the members have "+
			"vanished. Without it: 6 times the ttl.")
	o.routeFlags.register(f)
	o.logFlags.register(cmd)
	f.BoolVar(&o.explainTiming, "explain-timing", false,
		"Print how long a take-over takes with these settings in each case, and how long a "+
			"silence of Consul's is ridden through, with the formula of each. Nothing is "+
			"started, and Consul is not asked.")
	f.BoolVar(&o.json, "json", false, "Print JSON, with --explain-timing.")
	orders(f, "explain-timing")
	return cmd
}

// soften gives a meaning to a time of 0s: for the quiet times it is the shortest that there is,
// for the others there is none. Without it 0 would mean the default.
func (o *runFlags) soften(cmd *cobra.Command) error {
	for name, v := range map[string]*time.Duration{"leader-soak": &o.leaderSoak,
		"worker-soak": &o.workerSoak, "merge": &o.merge, "brake-hold": &o.brakeHold,
		"lock-delay": &o.lockDelay, "restart-wait": &o.restartWait} {
		if cmd.Flags().Changed(name) && *v == 0 {
			*v = time.Millisecond
		}
	}
	for name, v := range map[string]time.Duration{"ttl": o.ttl, "lease": o.lease, "renew": o.renew,
		"lease-margin": o.leaseMargin, "grace": o.grace, "stop-timeout": o.stopTimeout} {
		if cmd.Flags().Changed(name) && v <= 0 {
			return usage("--%s %v: give a time above 0s", name, v)
		}
	}
	if cmd.Flags().Changed("exec") && strings.TrimSpace(o.exec) == "" {
		return usage("--exec '': give the command that an item runs. A member that only leads or " +
			"routes has no --exec at all; one that holds items without a command has --hold-items")
	}
	if o.holdItems && o.exec != "" {
		return usage("--hold-items is for a member without --exec: give one of the two")
	}
	if o.exec != "" {
		if err := checkMargin(o.leaseMargin); err != nil {
			return err
		}
	}
	if _, err := o.outputFlags.parse(); err != nil {
		return err
	}
	if o.restartWait < 0 {
		return usage("--restart-wait %v: give a time of 0s or more", o.restartWait)
	}
	if o.itemCooldown < 0 {
		return usage("--item-cooldown %v: give a time of 0s or more", o.itemCooldown)
	}
	if o.restartWindow == 0 {
		return usage("--restart-window 0s: give one of 1s to 24h")
	}
	return nil
}

// killSlack is what a command that had to be killed gets to be gone before it is called stuck.
const killSlack = 5 * time.Second

func (a *app) runMember(ctx context.Context, o runFlags, idle []idleSetting,
	reload *reloader) error {
	outliveReaders()
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
	client, address, err := o.client(ctx)
	if err != nil {
		return err
	}
	if o.http != "" {
		if err := checkListen("http", o.http); err != nil {
			return err
		}
	}
	if err := o.accessFlags.check(); err != nil {
		return err
	}
	if err := o.routeFlags.check(o.address); err != nil {
		return err
	}
	cfg := o.config()
	cfg.Client, cfg.Consul, cfg.Logger = client, address, log
	if err := cfg.Validate(); err != nil {
		return err
	}
	page, err := openPage(o.http, o.httpHosts...)
	if err != nil {
		return err
	}
	defer page.close()
	share := budgetOf(descriptors(), o.route != "")
	if page != nil {
		page.conns, page.log, page.pprof = share.page, log, o.pprof
		page.access, err = reading(ctx, func() (access, error) { return o.accessFlags.open(log) })
		if err != nil {
			return err
		}
	}
	if cfg.Address == "" {
		cfg.Address = page.published()
	}

	if _, err := secrets(os.Environ(), o.passEnv); err != nil {
		return err
	}
	var to output.Config
	if o.exec != "" {
		if to, err = o.outputFlags.open(); err != nil {
			return err
		}
	}
	hist, err := openHistory(o.history)
	if err != nil {
		return err
	}
	// What is bad usage has been refused: from here on something is written.
	// A killed predecessor's guard looks for its successor, and does not wait long.
	leave, err := announce(o.service, o.id)
	if err != nil && o.exec != "" {
		return err
	}
	defer leave()

	// Started in this order and stopped in reverse.
	var children []supervisor.Child
	var work *commands
	cfg.Liveness = idleLiveness(o.service, o.id)
	if o.holdItems {
		cfg.Work = hold(log)
	}
	if o.exec != "" {
		if work, err = newCommands(o, to, leaseMargin(cfg), log); err != nil {
			return err
		}
		cfg.Work, cfg.Liveness, cfg.Lock = work.work, work.liveness, work.guard.LockID
	}
	cfg.Work = hist.wrap(cfg.Work)
	var counted *metrics.Metrics
	if page != nil {
		counted = metrics.New()
		cfg.Observer = counted
	}
	member, err := actors.New(cfg)
	if err != nil {
		return err
	}
	if work != nil {
		children = work.children(member.Session(), member.Membership())
	}
	var root *supervisor.Supervisor
	if page != nil {
		page.access.warn(log, page.address(), member.ConfigStore().Enabled())
		var outputLost func() uint64
		if work != nil && o.output != rawOutput {
			outputLost = work.guard.OutputLost
		}
		handler := func(o web.Options) http.Handler { return web.New(member, o) }
		children = append(children, page.child(handler, address, web.Options{
			Stopping: ctx.Done(), Report: func() supervisor.Report { return root.Report() },
			Metrics: metrics.Handler(counted.Collector(member, metrics.Options{
				Process:    func() *supervisor.Supervisor { return root },
				OutputLost: outputLost}))}))
	}
	route, err := openRoute(o.routeFlags, member.Router(), cfg.Address, share.route, log)
	if err != nil {
		return err
	}
	defer route.close()
	children = append(children, route.children()...)
	children = append(children, hist.begin(member, log)...)
	coordinator := member.Child("coordinator")
	notify := &notifier{to: systemd, log: log, changed: member.Membership(),
		condition: func() condition { return conditionOf(member) },
		stop:      coordinator.StopTimeout + o.stopTimeout + guardSlack}
	if reload != nil {
		reload.log, reload.begun = log, notify.reloading
		reload.apply = map[string]func(string) error{"log-level": o.setLevel,
			"capacity": func(text string) error {
				capacity, err := strconv.ParseUint(text, 10, 64)
				if err == nil {
					member.SetCapacity(capacity)
				}
				return err
			},
			"tags": func(text string) error {
				tags, err := listOf(text)
				if err != nil {
					return err
				}
				return member.SetTags(tags...)
			}}
		children = append(children, reload.child())
	}
	children = append(children, coordinator)
	if systemd != nil {
		children = append(children, notify.child())
	}
	root, err = supervisor.New("coordd", supervisor.Tree{Children: children},
		supervisor.WithLogger(log))
	if err != nil {
		return err
	}
	s := member.Settings()
	log.Info("starting", "service", o.service, "member", o.id, "consul", address, "version",
		version(), "pid", os.Getpid(),
		"ttl", s.TTL.String(), "lease", s.Lease.String(), "renew", s.Renew.String(),
		"lease_margin", s.LeaseMargin.String(), "check_ttl", checkTTL(s.CheckTTL).String(),
		"grace", s.Grace.String(),
		"lock_delay", s.LockDelay.String(), "leader_soak", s.LeaderSoak.String(), "stop_timeout",
		o.stopTimeout.String(), "restart_wait", o.restartWait.String(), "exec", o.exec,
		"takes_items", cfg.Work != nil, "http",
		page.address(), "route", route.address(),
		"backend", s.Backend, "config_log", s.ConfigLog)
	logIdle(log, idle)
	log.Info("worst-cases", logged(o.worstCases(cfg))...)
	err = root.Run(ctx)
	if bad := hist.close(); bad != nil {
		log.Error("history-incomplete", "err", bad)
	}
	if err != nil {
		return plain(err)
	}
	log.Info("stopped", "service", o.service, "member", o.id)
	return nil
}

// config is what the flags say of a member.
func (o *runFlags) config() actors.Config {
	return actors.Config{
		Service: o.service, ID: o.id, Address: o.address, Zone: o.zone,
		Version: version(), WorkVersion: o.appVersion,
		Capacity: o.capacity, TTL: o.ttl, Lease: o.lease, Renew: o.renew, LockDelay: o.lockDelay,
		LeaseMargin: o.leaseMargin, Grace: o.grace, CheckTTL: o.guarded(),
		LeaderSoak: o.leaderSoak, WorkerSoak: o.workerSoak, Merge: o.merge,
		MoveBudget: o.moveBudget.items, MoveBudgetShare: o.moveBudget.share,
		ItemCooldown: o.itemCooldown, StopTimeout: o.stopTimeout + killSlack,
		BrakeHold: o.brakeHold, MaxRestarts: o.maxRestarts, RestartWindow: o.restartWindow,
		OnChange:  actors.OnChange(o.onChange),
		KeepItems: o.keepItems, Tags: o.tags, PublishItems: o.publish,
		Backend: o.backend, ConfigLog: o.configLog,
	}
}

// leaseMargin is the margin that the member will use.
func leaseMargin(cfg actors.Config) time.Duration {
	if cfg.LeaseMargin != 0 {
		return cfg.LeaseMargin
	}
	if cfg.Lease != 0 {
		return cfg.Lease / 10
	}
	return cfg.TTL / 10
}

// hold is the work of a member that holds items without a command. It stands still whenever this
// process does.
func hold(log *slog.Logger) actors.Work {
	return func(ctx context.Context, item actors.Item) error {
		log.Debug("item-owned", "item", item.ID, "token", item.Token)
		began := time.Now()
		<-ctx.Done()
		stood(ctx, began, time.Now())
		log.Debug("item-given-up", "item", item.ID, "token", item.Token)
		return nil
	}
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
