package main

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// runFlags are the settings of one member.
type runFlags struct {
	serviceFlags
	logFlags
	accessFlags
	routeFlags
	outputFlags
	checks                                    checkFlags
	id, exec, http, address, zone, appVersion string
	beforeStart                               string
	beforeStartTimeout                        time.Duration
	history, backend, configLog               string
	httpHosts, passEnv, tags                  []string
	holdItems, copiedHost                     bool
	capacity                                  uint64
	moveBudget                                moveBudget
	ttl, lease, renew, leaseMargin, checkTTL  time.Duration
	grace, lockDelay, leaderSoak, workerSoak  time.Duration
	merge, brakeHold                          time.Duration
	stopTimeout, restartWait, keepItems       time.Duration
	onChange                                  onChange
	maxRestarts, starts                       int
	restartWindow                             time.Duration
	explainTiming, json                       bool
}

func (o *runFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.id, "id", "",
		"The `id` of this member, unique in the service and without a slash. Required.")
	o.serviceFlags.register(f)
	o.registerCommand(f)
	o.registerMember(f)
	o.registerTimes(f)
	o.registerLeader(f)
	f.StringVar(&o.http, "http", "",
		"The `address` to serve the page, /healthz, /readyz, /metrics and the API below /v1/ on, "+
			"such as 127.0.0.1:7070. Without it there is none.")
	hostsFlag(f, &o.httpHosts, "http-host", "the page")
	o.accessFlags.register(cmd)
	f.StringVar(&o.backend, "backend", actors.BackendNone,
		"Where the service's configuration is `kept`: none, or consul (then --http serves it "+
			"below /config/). BACKEND in the environment means the same.")
	f.StringVar(&o.configLog, "config-log", "",
		"The `directory` of a log of configuration writes, which then survive a crash and an "+
			"outage of Consul. Without it there is none.")
	o.routeFlags.register(f)
	f.StringVar(&o.history, "history", "",
		"The `file` to append a history to, for coordd verify. Without it there is none.")
	o.logFlags.register(f)
	f.BoolVar(&o.explainTiming, "explain-timing", false,
		"Print how long a take-over takes with these settings in each case, and how long a "+
			"silence of Consul's is ridden through. Nothing is started.")
	f.BoolVar(&o.json, "json", false, "Print JSON, with --explain-timing.")
}

// registerCommand registers what is about the command of an item.
func (o *runFlags) registerCommand(f *pflag.FlagSet) {
	f.StringVar(&o.exec, "exec", "",
		"The shell `command` to run for each item that this member owns.")
	f.StringVar(&o.beforeStart, "before-start", "",
		"The shell `command` to run before each start of --exec, with the same variables. It ends "+
			"what an earlier run may have left at work, such as a container. Where it fails, the "+
			"start has failed.")
	f.DurationVar(&o.beforeStartTimeout, "before-start-timeout", 30*time.Second,
		"The `time` that --before-start may take.")
	f.BoolVar(&o.holdItems, "hold-items", false,
		"Take items though no command runs for them: the service at --address works on what is "+
			"routed to it.")
	f.Var(&o.onChange, "on-change",
		"What becomes of a running command whose item's payload is changed: `keep` lets it go on "+
			"until it is started the next time; restart stops it and starts it again with the new "+
			"payload, at the same member; signal writes the payload to the file that "+
			"COORDD_PAYLOAD_FILE names and sends the command SIGHUP.")
	f.DurationVar(&o.stopTimeout, "stop-timeout", 10*time.Second,
		"The `time` from SIGTERM to SIGKILL when a command is stopped.")
	f.IntVar(&o.starts, "starts-at-once", 0,
		"The most `commands` that are started at one time, up to 1000. 0 means as many as there "+
			"are processors.")
	f.IntVar(&o.maxRestarts, "max-restarts", 0,
		"How `often` the command of an item is started again after it has ended by itself, within "+
			"--restart-window. Then the item is tried at one other member, and where that fails "+
			"too it is quarantined: nobody runs it until coordd restart. 0 means for ever.")
	f.DurationVar(&o.restartWindow, "restart-window", 10*time.Minute,
		"The `time` within which --max-restarts counts: 1s to 24h.")
	f.DurationVar(&o.restartWait, "restart-wait", 500*time.Millisecond,
		"The `time` for which the items of a coordd that was killed wait for it to be started "+
			"again on this host, before its guard hands them over. Only with --exec. Above twice "+
			"the ttl: for ever, and they wait for the session.")
	o.checks.register(f)
	secretFlags(f, &o.passEnv)
	o.outputFlags.register(f)
}

// registerMember registers what a member tells of itself.
func (o *runFlags) registerMember(f *pflag.FlagSet) {
	f.StringVar(&o.address, "address", "",
		"The `address`, host:port, of the service beside this member. It is published: --route "+
			"sends requests there. Without it: that of --http, else the host's name.")
	f.Uint64Var(&o.capacity, "capacity", 0,
		"The most `weight` that this member may hold. 0 means no limit.")
	f.BoolVar(&o.copiedHost, "copied-host", false,
		"This machine may run twice, as when a live snapshot of it is resumed again. So a killed "+
			"coordd that is started again here waits for the lease of the one before, as it "+
			"would on another host: up to 29.5 s by default.")
	f.StringVar(&o.zone, "zone", "", "The `zone` that this member is in. It is "+
		"published. Items that move stay in their zone where they can.")
	f.StringVar(&o.appVersion, "app-version", "",
		"The `version` of what this member runs. It is published. While members show different "+
			"ones, items that move prefer those of the version that came last, up to twice a "+
			"share. Without it loads stay even.")
	f.StringSliceVar(&o.tags, "tags", nil,
		"More `tags` of this member in Consul's catalog, separated by commas, beside leader and "+
			"draining.")
	f.DurationVar(&o.keepItems, "keep-items", 0,
		"The `time` for which this member's items wait for it after a clean stop, so that a "+
			"rollout moves none of them. Without it they are handed over at once.")
}

// registerTimes registers the session's times.
func (o *runFlags) registerTimes(f *pflag.FlagSet) {
	f.DurationVar(&o.ttl, "ttl", 10*time.Second,
		"The `time` of silence after which Consul ends this member's session, once or twice as "+
			"long: 2s to 24h, and no less than its session_ttl_min, 10s by default.")
	f.DurationVar(&o.lease, "lease", 0,
		"The `time` of silence after which this member stops its work: 2s to the ttl. Others take "+
			"over when that has passed since the end of the session. Without it: the ttl.")
	f.Var((*checkTTL)(&o.checkTTL), "check-ttl",
		"The `time` of silence after which Consul takes this member for lost, by a health check "+
			"at its Consul agent: 1s to the ttl, or none. Without it: about two thirds of the "+
			"lease, 6.5s by default. With --exec: the lease, 10s by default, and longer with a "+
			"long --restart-wait, so that the guard of a killed coordd can hand over first.")
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
}

// registerLeader registers how this member plans when it leads.
func (o *runFlags) registerLeader(f *pflag.FlagSet) {
	f.DurationVar(&o.leaderSoak, "leader-soak", 5*time.Second,
		"The quiet `time` before items are moved only for balance.")
	f.DurationVar(&o.merge, "merge", 250*time.Millisecond,
		"The quiet `time` before free items are placed, so that changes are planned together.")
	f.DurationVar(&o.workerSoak, "worker-soak", 500*time.Millisecond,
		"The `time` from the assignment of an item to the start of its work. An item that is taken "+
			"over from a lost member starts without it.")
	o.moveBudget = moveBudget{items: 1000}
	f.Var(&o.moveBudget, "move-budget",
		"The most `items` that are on the move at one time for balance, or from drained members: "+
			"a number, or a share of the workload, such as 5%.")
	f.DurationVar(&o.brakeHold, "brake-time", 0,
		"The `time` for which the brake stays on when more than half of the members have "+
			"vanished. Without it: 6 times the ttl.")
}

// moveBudget is the value of --move-budget: a number of items, or a share of them.
type moveBudget struct {
	items int     // 0: only the share holds
	share float64 // 0: none
}

func (b *moveBudget) String() string {
	if b.share > 0 {
		return strconv.FormatFloat(b.share*100, 'f', -1, 64) + "%"
	}
	return strconv.Itoa(b.items)
}

func (b *moveBudget) Type() string { return "items" }

func (b *moveBudget) Set(text string) error {
	text = strings.TrimSpace(text)
	if percent, ok := strings.CutSuffix(text, "%"); ok {
		share, err := strconv.ParseFloat(percent, 64)
		if err != nil || !aShare.MatchString(percent) || !(share > 0 && share <= 100) {
			return errors.New("give a share above 0% and up to 100%")
		}
		*b = moveBudget{share: share / 100}
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || !aNumber.MatchString(text) {
		return errors.New("give 1 item or more, or a share such as 5%")
	}
	*b = moveBudget{items: n}
	return nil
}

// guarded is the check's TTL of a member whose guard speaks for it when it is killed. The session
// must not end with the check before the guard has spoken: when the commands have ended, with the
// lease at the latest, and after the wait for a successor. A check that lasts longer than the
// session is none.
func (o *runFlags) guarded() time.Duration {
	const slack = 2 * time.Second // for the goodbye
	lease := o.lease
	if lease == 0 {
		lease = o.ttl
	}
	switch d := max(lease, o.restartWait+slack); {
	case o.checkTTL != 0, o.exec == "":
		return o.checkTTL
	case d > o.ttl:
		return actors.NoCheck
	default:
		return d
	}
}

// checkTTL is the flag --check-ttl: a time, or none.
type checkTTL time.Duration

func (c checkTTL) String() string {
	switch c {
	case 0:
		return ""
	case actors.NoCheck:
		return "none"
	}
	return time.Duration(c).String()
}

func (c *checkTTL) Set(text string) error {
	if text == "none" {
		*c = actors.NoCheck
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > actors.MaxTime {
		return errors.New("give a time above 0s, such as 6s, or none")
	}
	*c = checkTTL(d)
	return nil
}

func (c *checkTTL) Type() string { return "time" }
