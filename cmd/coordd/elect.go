package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/messages"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// scheduleFlags say when a command is run once in each period.
type scheduleFlags struct {
	every, cron string
	runNow      bool
}

// electFlags are the settings of one candidate and of the orders.
type electFlags struct {
	outputFlags
	logFlags
	consulFlags
	zookeeper             zookeeperFlags
	prefix                string
	passEnv               []string
	id, address, handOver string
	priority              int
	preempt, once         bool
	scheduleFlags
	follow, end, remove, status     bool
	asJSON                          bool
	ttl, lease, checkTTL, lockDelay time.Duration
	margin, holdBack, stopTimeout   time.Duration
}

func (a *app) electCommand() *cobra.Command {
	var o electFlags
	cmd := &cobra.Command{
		Use:   "elect NAME [--] COMMAND [ARG...]",
		Short: "Run a command on one machine at a time, wherever the leader of NAME is",
		Long: `Takes part in the election NAME and runs a command while it leads: on one machine at a
time, whatever happens to the machines. NAME is any name of letters, digits and ._-~:@+. Nothing
has to be set up for it. The election is held on Consul, or on ZooKeeper with --zookeeper. The flags
of coordd come before the command: what follows the command is the command's own.

The command gets COORDD_ELECTION, COORDD_MEMBER (its --id) and COORDD_TOKEN, the fencing token. The
token rises from one leader to the next, and with each start, which its last four digits count. Pass
it on to what the command writes to: there a late write of a former leader can be refused. One
argument alone is a shell command, several are a program and its arguments. The command has no
standard input.

When the command ends by itself, the leadership is given up, and coordd elect ends with the
command's exit code (128 and the signal's number if a signal ended it). When the leadership is lost
or handed over, the command gets SIGTERM, and SIGKILL after the stop timeout or at the end of the
lease. Then this candidate waits for its next turn, or ends with exit code 1 if --once is given.

With --every or --cron the command runs once in each period, on one machine of all, and gets the
beginning of the period in COORDD_PERIOD. The start is recorded before the command starts, under the
leadership. So no period is run twice, also when a leader dies, a machine restarts or clocks differ.
A run that fails, or is cut short by the loss, the stop or a --hand-over of its leader, is not run
again but by --run-now. A run that is longer than its period goes on. Of the periods that could not
begin in time, as when all machines were down, the newest is run as soon as it can be. --status and
the log name failed and missed runs. Give all machines the same schedule.

SIGINT and SIGTERM stop the command, give the leadership up and end with exit code 0. SIGHUP,
SIGUSR1 and SIGUSR2 are passed on to the command. While its guard process lives, no command outlives
its coordd.

A leader that resigns is succeeded at once. A leader that is killed (kill -9) is succeeded within
about a second of its command's end; one that hangs after check-ttl + lock-delay, 17.5s by default;
one whose machine is lost after 19s. On ZooKeeper both take the ttl + a tick + lock-delay.

Without a command it follows, asks or gives orders: --status, --follow, --hand-over, --end,
--run-now, --delete.`,
		Example: `  coordd elect nightly-report --cron '15 3 * * *' -- ./report.sh --all
  coordd elect cleanup --every 1h ./cleanup.sh
  coordd elect --id $(hostname) --priority 10 db-writer 'exec ./writer.sh "$COORDD_TOKEN"'
  coordd elect --zookeeper zk1:2181,zk2:2181,zk3:2181 db-writer ./writer.sh
  coordd elect db-writer --status
  coordd elect db-writer --hand-over n2`,
	}
	var args []string
	cmd.Args = func(cmd *cobra.Command, given []string) (err error) {
		args, err = behindName(cmd, given)
		return err
	}
	cmd.PreRunE = func(*cobra.Command, []string) error { return o.check(args) }
	cmd.RunE = a.does(func(ctx context.Context, _ []string) error {
		switch {
		case o.status:
			return a.electStatus(ctx, o, args[0])
		case o.follow:
			return a.electFollow(ctx, o, args[0])
		case len(o.asked()) > 0:
			return a.electOrder(ctx, o, args[0])
		}
		return a.elect(ctx, o, args[0], shellCommand(args[1:]))
	})
	cmd.Flags().SortFlags = false
	cmd.Flags().SetInterspersed(false)
	o.register(cmd)
	orders(cmd.Flags(), "status", "follow", "hand-over", "run-now", "end", "delete")
	cmd.MarkFlagsMutuallyExclusive("status", "follow", "hand-over", "run-now", "end",
		"delete")
	cmd.MarkFlagsMutuallyExclusive("every", "cron")
	cmd.MarkFlagsRequiredTogether("zookeeper-cert-file", "zookeeper-key-file")
	experts(cmd, "every", "cron", "id", "priority", "preempt", "once", "ttl", "lease",
		"stop-timeout", "pass-env", "output", "status", "follow", "hand-over", "run-now", "end",
		"delete", "json", "consul", "zookeeper", "log-format", "log-level")
	return cmd
}

// behindName parses the flags between the name and the command. The command's own flags are left
// to it.
func behindName(cmd *cobra.Command, given []string) ([]string, error) {
	if len(given) < 2 {
		return given, nil
	}
	if err := cmd.ParseFlags(given[1:]); err != nil {
		return nil, flagError(cmd, err)
	}
	if help, _ := cmd.Flags().GetBool("help"); help {
		return nil, pflag.ErrHelp
	}
	return append(given[:1:1], cmd.Flags().Args()...), nil
}

func (o *electFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.every, "every", "",
		"Run the command once in each period of this `time`, counted from midnight UTC on a Monday "+
			"long ago: 24h begins at midnight UTC. The first run is at once.")
	f.StringVar(&o.cron, "cron", "",
		"Run the command at the times of this `line` of cron, as '15 3 * * *', in UTC. In another "+
			"zone: 'CRON_TZ=Europe/Berlin 15 3 * * *'.")
	f.StringVar(&o.id, "id", "",
		"The `name` of this candidate, for people and for --hand-over. Without it: the host's "+
			"name and the process id.")
	f.IntVar(&o.priority, "priority", 0,
		"The highest `number` among the waiting candidates leads next; among equals, the first.")
	f.BoolVar(&o.preempt, "preempt", false, "Ask a leader of lower priority to make way.")
	f.BoolVar(&o.once, "once", false,
		"End, with exit code 1, when the leadership is lost or handed over.")
	f.DurationVar(&o.ttl, "ttl", onconsul.DefaultTTL,
		"The `time` of silence after which Consul ends this candidate's session, once or twice as "+
			"long: 2s to 24h, and no less than its session_ttl_min, 10s by default. "+
			"ZooKeeper grants what its own settings allow, 4s to 40s as a rule.")
	f.DurationVar(&o.lease, "lease", 0,
		"The `time` of silence after which a leader stops its command: 2s to the ttl. Without it: "+
			"the ttl. For Consul.")
	f.Var((*checkTTL)(&o.checkTTL), "check-ttl",
		"The `time` of silence after which Consul takes this candidate for lost, by a health "+
			"check at its Consul agent: 1s to the ttl, or none. Without it: about two thirds of "+
			"the lease, 6.5s by default; none with a --lock-delay below the lease. For Consul.")
	f.DurationVar(&o.lockDelay, "lock-delay", 0,
		"The `time` for which the leadership of a lost machine is kept from the others. Without "+
			"it: the lease, in Consul 60s at most. A shorter one, down to 1s, is unsafe if a "+
			"session ends early; so there is no check with it.")
	f.DurationVar(&o.margin, "lease-margin", 0,
		"The `time` before the end of the lease at which the command is told to stop. Without "+
			"it: a tenth of the lease.")
	f.DurationVar(&o.stopTimeout, "stop-timeout", 10*time.Second,
		"The `time` from SIGTERM to SIGKILL when the command is stopped.")
	secretFlags(f, &o.passEnv)
	o.outputFlags.register(f)
	f.StringVar(&o.address, "address", "",
		"An `address` of this candidate. It is published and not used.")
	f.BoolVar(&o.status, "status", false,
		"Show who leads, who waits, and the last and the next run of a schedule.")
	f.BoolVar(&o.follow, "follow", false,
		"Tell who leads, until interrupted, without being a candidate.")
	f.StringVar(&o.handOver, "hand-over", "",
		"Ask the leader to make way for this `candidate`, by its id.")
	f.DurationVar(&o.holdBack, "hand-over-wait", 5*time.Second,
		"The `time` for which the others wait for that candidate once the leadership is free, 1m "+
			"at most.")
	f.BoolVar(&o.runNow, "run-now", false,
		"With a schedule: ask the leader to run the command now, within 3s.")
	f.BoolVar(&o.end, "end", false,
		"End the election for everyone, now and later, until it is deleted.")
	f.BoolVar(&o.remove, "delete", false,
		"End it, wait until nobody leads, and remove all that there is of it.")
	f.BoolVar(&o.asJSON, "json", false, "With --status or --follow: print JSON.")
	o.consulFlags.register(f)
	o.zookeeper.register(f)
	f.StringVar(&o.prefix, "prefix", "",
		"The `prefix` of the keys in Consul, or the node in ZooKeeper. Without it: "+
			onconsul.DefaultPrefix+", "+onzk.DefaultRoot+".")
	o.logFlags.register(f)
}

// asked is the flag that asks or orders, and runs no command; empty: none is given.
func (o *electFlags) asked() string {
	for flag, given := range map[string]bool{"--status": o.status, "--follow": o.follow,
		"--hand-over": o.handOver != "", "--run-now": o.runNow, "--end": o.end,
		"--delete": o.remove} {
		if given {
			return flag
		}
	}
	return ""
}

// schedule is that of the command; empty: it runs for as long as its candidate leads.
func (o *electFlags) schedule() string {
	if o.every != "" {
		return "@every " + o.every
	}
	return o.cron
}

// check checks the arguments together.
func (o *electFlags) check(args []string) error {
	if len(args) == 0 {
		return usage("give the name of the election")
	}
	if err := election.CheckName("the election", args[0]); err != nil {
		return usage("%v", err)
	}
	asked := o.asked()
	switch {
	case asked != "" && len(args) > 1:
		return usage("%s runs no command, and was given %q", asked, args[1:])
	case asked == "" && len(args) == 1:
		return usage("give a command to run while this candidate leads, or one of --status, " +
			"--follow, --hand-over, --run-now, --end, --delete")
	case asked == "" && strings.TrimSpace(strings.Join(args[1:], "")) == "":
		return usage("the command is empty")
	case o.schedule() != "" && (o.once || o.preempt):
		return usage("--once and --preempt do not go with --every and --cron: they would cut " +
			"runs short")
	case len(o.zookeeper.Servers) > 0 && o.consulFlags != consulFlags{}:
		return usage("give one of --consul and --zookeeper (or of their variables); " +
			"--datacenter, --namespace and --partition go with Consul")
	case len(o.zookeeper.Servers) == 0 && o.zookeeper.some():
		return usage(
			"--zookeeper-auth-file, --zookeeper-tls and the files of TLS go with --zookeeper")
	case o.lockDelay > 0 && o.lockDelay < time.Second:
		return usage("--lock-delay %v: give 1s at least", o.lockDelay)
	}
	if _, err := o.outputFlags.parse(); err != nil {
		return err
	}
	return checkMargin(o.margin)
}

// shellCommand returns what the guard process runs. One argument alone is a shell command.
func shellCommand(args []string) string {
	if len(args) == 1 {
		return args[0]
	}
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	return "exec " + strings.Join(quoted, " ")
}

// electConn is a connection to a store of elections.
type electConn interface {
	election.Connection
	Contact() messages.Reader[election.Contact]
	Close()
}

// connect opens the connection to Consul or to ZooKeeper. where is its address, for people.
func (o *electFlags) connect(log *slog.Logger) (conn electConn, where string, err error) {
	if len(o.zookeeper.Servers) > 0 {
		cfg, err := o.zooKeeperConfig(log)
		if err != nil {
			return nil, "", usage("%v", err)
		}
		conn, err := onzk.Connect(cfg)
		if errors.Is(err, election.ErrInvalid) {
			err = usage("%v", err)
		}
		if err != nil {
			return nil, "", err
		}
		return conn, strings.Join(o.zookeeper.Servers, ","), nil
	}
	client, address, err := o.client()
	if err != nil {
		return nil, "", err
	}
	cfg := o.consulConfig()
	cfg.Client, cfg.Consul, cfg.Logger = client, address, log
	consul, err := onconsul.Connect(cfg)
	if err != nil {
		return nil, "", usage("%v", err)
	}
	return consul, address, nil
}

func (o *electFlags) consulConfig() onconsul.Config {
	return onconsul.Config{Name: "coordd elect " + o.id, TTL: o.ttl, Lease: o.lease,
		CheckTTL: o.checkTTL, LockDelay: o.lockDelay, Prefix: o.prefix, HoldBack: o.holdBack}
}

// times are the settings and worst cases that are logged at the start.
func (o *electFlags) times() []any {
	if len(o.zookeeper.Servers) > 0 {
		return []any{"ttl", o.ttl.String()}
	}
	lease, check, delay := o.consulConfig().Times()
	process, machine := o.consulConfig().TakeOver()
	return []any{"ttl", o.ttl.String(), "lease", lease.String(), "check_ttl",
		checkTTL(check).String(), "lock_delay", delay.String(), "take_over", process.String(),
		"take_over_of_lost_machine", machine.String()}
}

// elect is one candidate. It ends when its command has ended, when it is told to stop, or when the
// election is over.
func (a *app) elect(ctx context.Context, o electFlags, name, command string) error {
	if o.id == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "host"
		}
		o.id = host + "-" + strconv.Itoa(os.Getpid())
	}
	log, err := a.logger(&o.logFlags)
	if err != nil {
		return err
	}
	cfg := election.Config{Election: name, Name: o.id, Priority: o.priority, Preempt: o.preempt,
		Address: o.address, Margin: o.margin, Schedule: o.schedule(), Logger: log}
	if err := cfg.Validate(); err != nil {
		return usage("%v", err)
	}
	conn, where, err := o.connect(log)
	if err != nil {
		return err
	}
	defer conn.Close()
	runner, err := newCommandRunner(o, conn, name, command, log)
	if err != nil {
		return err
	}
	beginWork()
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	if err := runner.runGuard(background, &group); err != nil {
		return err
	}
	log.Info("starting", append([]any{"election", name, "candidate", o.id, "store", where,
		"version", version(), "pid", os.Getpid()}, o.times()...)...)
	for ctx.Err() == nil {
		again, err := runner.turn(ctx, cfg)
		if !again {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond): // so that nothing can make this a hot loop
		}
	}
	log.Info("stopped", "election", name)
	return nil
}

// turn stands for the election once. Again: it is to stand once more, unless it is told to stop.
func (r *commandRunner) turn(ctx context.Context, cfg election.Config) (again bool, err error) {
	// A host that can start no guard process runs no command: it does not stand for one.
	if r.guard.AwaitUp(ctx) != nil {
		return true, nil
	}
	var e *election.Election
	cfg.Lead = func(ctx context.Context, s election.Status) error {
		err := r.runCommand(ctx, s)
		if _, ended := r.exited(); ended {
			e.Resign() // the election may have taken it for stopped, not for ended
		}
		return err
	}
	if e, err = election.New(r.conn, cfg); err != nil {
		return false, usage("%v", err)
	}
	statuses, err := e.Nominate(ctx)
	if err != nil {
		return false, err
	}
	led := false
	for s := range statuses {
		if led && r.o.once && s.Role != election.Leading && s.Role != election.Draining {
			// The leadership is lost, or may be. runCommand runs no second command if it comes back.
			e.Resign()
		}
		led = led || s.Role == election.Leading
	}
	if code, ended := r.exited(); ended {
		r.log.Info("command-ended", "election", r.name, "code", code)
		if code == 0 {
			return false, nil
		}
		return false, commandExit(code)
	}
	switch s := e.State().Get(); {
	case ctx.Err() != nil:
		return true, nil
	case s.Ended:
		return false, fmt.Errorf(
			"the election %s was ended for everyone; delete it with --delete to begin anew", r.name)
	case s.Deleted:
		return false, fmt.Errorf("the election %s was deleted", r.name)
	case led && r.o.once:
		return false, fmt.Errorf("the leadership of %s was lost", r.name)
	case s.Err != nil && !errors.Is(s.Err, election.ErrSessionLost) &&
		!errors.Is(s.Err, errCommandStopped):
		return false, s.Err
	}
	return true, nil // a new session, and its next turn
}

// errCommandStopped says that the command was stopped or not started, but not because the election
// told it to.
var errCommandStopped = errors.New("the command was cut short")
