package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
)

// electFlags are the settings of one candidate and of the orders.
type electFlags struct {
	passEnv []string
	outputFlags
	logFlags
	consulFlags
	prefix                          string
	zookeeper                       zookeeperFlags
	id, address, handOver           string
	priority                        int
	preempt, once                   bool
	follow, end, remove, status     bool
	asJSON                          bool
	ttl, lease, checkTTL, lockDelay time.Duration
	margin, holdBack, stopTimeout   time.Duration
}

// commandExit is an exit code alone: that of the command that coordd elect ran, or of a status that
// is printed and bad. There is no more to say.
type commandExit int

func (c commandExit) Error() string { return "exit code " + strconv.Itoa(int(c)) }

func (a *app) electCommand() *cobra.Command {
	var o electFlags
	cmd := &cobra.Command{
		Use:   "elect NAME [--] COMMAND [ARG...]",
		Short: "Run a command on one machine at a time, wherever the leader of NAME is",
		Long: `Takes part in the election NAME and runs a command while it leads: on one machine at
a time, whatever becomes of the machines. NAME is any name of letters, digits and
._-~:@+; nothing has to be set up for it. The election is held on Consul, or on ZooKeeper
with --zookeeper.

The command gets COORDD_ELECTION, COORDD_MEMBER (its --id) and COORDD_TOKEN, the fencing
token: it rises from one leader to the next. Pass it on to whatever the command writes to, so
that a late write of a former leader can be refused. One argument alone is a shell command,
several are a program and its arguments. It has no standard input.

When the command ends by itself, the leadership is given up and coordd elect ends with the
command's exit code (128 and the signal's number if a signal ended it). When the leadership is
lost or handed over, the command gets SIGTERM, and SIGKILL after the stop timeout or at the end of
the lease, whichever is first; then this candidate waits for its next turn, or ends with exit code
1 if --once is given. The leadership is given up only when the command has really ended.

SIGINT and SIGTERM stop the command, give the leadership up and end with exit code 0.
SIGHUP, SIGUSR1 and SIGUSR2 are passed on to the command: of a shell command, to the shell, unless
it says exec. A SIGHUP or SIGINT that is ignored when coordd starts, as SIGHUP is under nohup,
stays ignored. No command outlives its coordd.

A Consul or ZooKeeper that does not answer costs nothing while the lease lasts. A leader that
resigns is succeeded at once, one that is killed (kill -9) within about a second of its command's
end; one that hangs, or is killed with all that it runs, after check-ttl + lock-delay, 17.5s by
default, and one whose machine is lost after 19s (without a check 2 x ttl + lock-delay; on
ZooKeeper ttl + a tick + lock-delay).

Without a command it follows, asks or gives orders: --status, --follow, --hand-over, --end,
--delete.`,
		Example: `  coordd elect nightly-report -- ./report.sh --all
  coordd elect db-writer --id $(hostname) --priority 10 'exec ./writer.sh "$COORDD_TOKEN"'
  coordd elect db-writer --zookeeper zk1:2181,zk2:2181,zk3:2181 -- ./writer.sh
  coordd elect db-writer --status
  coordd elect db-writer --hand-over n2`,
		// Args would not see what the environment says
		PreRunE: func(cmd *cobra.Command, args []string) error {
			for _, flag := range []string{"lease", "check-ttl"} {
				if len(o.zookeeper.Servers) > 0 && cmd.Flags().Changed(flag) && !a.taken.has(flag) {
					return usage("--%s is for Consul; ZooKeeper has the --ttl alone", flag)
				}
			}
			if len(o.zookeeper.Servers) > 0 {
				o.lease = 0 // of a variable, for who is on Consul
			}
			if lease := cmp.Or(o.lease, o.ttl); a.taken.has("check-ttl") && o.lockDelay > 0 &&
				o.lockDelay < lease {
				o.checkTTL = 0 // it is for coordd run, which may have it with such a lock-delay
			}
			if a.taken.has("json") && !o.status && !o.follow {
				o.asJSON = false // it is for other commands
			}
			return o.check(args)
		},
		RunE: a.does(func(ctx context.Context, args []string) error {
			if err := o.ranges(); err != nil {
				return err
			}
			switch {
			case o.status:
				return a.electStatus(ctx, o, args[0])
			case o.follow:
				return a.electFollow(ctx, o, args[0])
			case o.order() != "":
				return a.electOrder(ctx, o, args[0])
			}
			return a.elect(ctx, o, args[0], shellCommand(args[1:]))
		}),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.id, "id", "",
		"The `name` of this candidate, for people and for --hand-over. Without it: the host's "+
			"name and the process id.")
	f.IntVar(&o.priority, "priority", 0,
		"Among those who wait, the highest `number` leads next; among equals, who came first.")
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
			"check at its Consul agent: 1s to the ttl, or none. Without it: 13/20 of the lease; "+
			"none with a --lock-delay below the lease. For Consul.")
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
	f.BoolVar(&o.status, "status", false, "Show who leads and who waits.")
	f.BoolVar(&o.follow, "follow", false,
		"Tell who leads, until interrupted, without being a candidate.")
	f.StringVar(&o.handOver, "hand-over", "",
		"Ask the leader to make way for this `candidate`, by its id.")
	f.DurationVar(&o.holdBack, "hold-back", 5*time.Second,
		"The `time` for which the others wait for that candidate once the leadership is free, 1m "+
			"at most.")
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
	o.logFlags.register(cmd)
	orders(f, "status", "follow", "hand-over", "end", "delete")
	return cmd
}

// order returns the order that is given; empty: none.
func (o *electFlags) order() string {
	switch {
	case o.handOver != "":
		return "--hand-over"
	case o.end:
		return "--end"
	case o.remove:
		return "--delete"
	}
	return ""
}

// check checks the arguments together.
func (o *electFlags) check(args []string) error {
	if len(args) == 0 {
		return usage("give the name of the election")
	}
	if err := election.CheckName("the election", args[0]); err != nil {
		return usage("%v", err)
	}
	var asked []string
	for _, x := range []struct {
		yes  bool
		flag string
	}{{o.status, "--status"}, {o.follow, "--follow"}, {o.handOver != "", "--hand-over"},
		{o.end, "--end"}, {o.remove, "--delete"}} {
		if x.yes {
			asked = append(asked, x.flag)
		}
	}
	switch {
	case len(asked) > 1:
		return usage("give one of %s", strings.Join(asked, ", "))
	case len(asked) == 1 && len(args) > 1:
		return usage("%s runs no command, and was given %q", asked[0], args[1:])
	case len(asked) == 0 && len(args) == 1:
		return usage("give a command to run while %s leads, or one of --status, --follow, "+
			"--hand-over, --end, --delete",
			"this candidate")
	case len(asked) == 0 && strings.TrimSpace(strings.Join(args[1:], "")) == "":
		return usage("the command is empty")
	case len(o.zookeeper.Servers) > 0 && o.some():
		return usage("give one of --consul and --zookeeper (or of their variables); " +
			"--datacenter, --namespace and --partition go with Consul")
	case o.asJSON && !o.status && !o.follow:
		return usage("--json goes with --status or --follow")
	}
	if _, err := o.outputFlags.parse(); err != nil {
		return err
	}
	return o.zookeeper.check()
}

// ranges refuses impossible times.
func (o *electFlags) ranges() error {
	for _, x := range []struct {
		flag string
		d    time.Duration
		zero bool
	}{{"ttl", o.ttl, false}, {"lease", o.lease, true}, {"lock-delay", o.lockDelay, true},
		{"lease-margin", o.margin, true},
		{"stop-timeout", o.stopTimeout, false}, {"hold-back", o.holdBack, false}} {
		if x.d < 0 || x.d == 0 && !x.zero {
			return usage("--%s %v: give a time above 0s", x.flag, x.d)
		}
	}
	if o.lockDelay > 0 && o.lockDelay < time.Second {
		return usage("--lock-delay %v: give 1s at least", o.lockDelay)
	}
	if lease := cmp.Or(o.lease, o.ttl); o.margin >= lease/2 {
		return usage("--lease-margin %v: give less than half of the lease of %v", o.margin, lease)
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
func (o *electFlags) connect(ctx context.Context, a *app) (conn electConn, where string,
	err error) {
	log, err := a.logger(&o.logFlags)
	if err != nil {
		return nil, "", err
	}
	if len(o.zookeeper.Servers) > 0 {
		cfg, err := reading(ctx, func() (onzk.Config, error) { return o.zooKeeperConfig(log) })
		switch {
		case errors.Is(err, errInterrupted):
			return nil, "", err
		case err != nil:
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
	client, address, err := o.client(ctx)
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
	outliveReaders()
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
		Address: o.address, Margin: o.margin, Logger: log}
	if err := cfg.Validate(); err != nil {
		return usage("%v", err)
	}
	if _, err := secrets(os.Environ(), o.passEnv); err != nil {
		return err
	}
	conn, where, err := o.connect(ctx, a)
	switch {
	case errors.Is(err, errInterrupted):
		return nil // it has not begun
	case err != nil:
		return err
	}
	defer conn.Close()
	runner, err := newCommandRunner(o, conn, name, command, log)
	if err != nil {
		return err
	}
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	if err := runner.runGuard(background, &group); err != nil {
		return err
	}
	log.Info("starting", append([]any{"election", name, "candidate", o.id, "store", where,
		"version", version(), "pid", os.Getpid()}, o.times()...)...)
	for {
		// A host that can start no guard process runs no command: it does not stand for one.
		if runner.guard.AwaitUp(ctx) != nil {
			log.Info("stopped", "election", name)
			return nil
		}
		var e *election.Election
		cfg.Lead = func(ctx context.Context, s election.Status) error {
			err := runner.runCommand(ctx, s)
			if _, ended := runner.exited(); ended {
				e.Resign() // the election may have taken it for stopped, not for ended
			}
			return err
		}
		e, err := election.New(conn, cfg)
		if err != nil {
			return usage("%v", err)
		}
		statuses, err := e.Nominate(ctx)
		if err != nil {
			return err
		}
		led := false
		for s := range statuses {
			if led && o.once && s.Role != election.Leading && s.Role != election.Draining {
				// it is lost, or may be: work.lead runs no second command if it comes back first
				e.Resign()
			}
			led = led || s.Role == election.Leading
		}
		s, code, ended := e.State().Get(), 0, false
		if code, ended = runner.exited(); ended {
			log.Info("command-ended", "election", name, "code", code)
			if code == 0 {
				return nil
			}
			return commandExit(code)
		}
		switch {
		case ctx.Err() != nil:
			log.Info("stopped", "election", name)
			return nil
		case s.Ended:
			return fmt.Errorf(
				"the election %s was ended for everyone; delete it with --delete to begin anew",
				name)
		case s.Deleted:
			return fmt.Errorf("the election %s was deleted", name)
		case led && o.once:
			return fmt.Errorf("the leadership of %s was lost", name)
		case errors.Is(s.Err, election.ErrSessionLost), errors.Is(s.Err, errCommandStopped):
			// A new session, and its next turn.
		case s.Err != nil:
			return s.Err
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond): // so that nothing can make this a hot loop
		}
	}
}

// errCommandStopped says that the command was stopped or not started, but not because the election
// told it to.
var errCommandStopped = errors.New("the command was cut short")
