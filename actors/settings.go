package actors

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/coordd/coordd/actors/internal/member"
	"github.com/coordd/coordd/actors/routing"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/hashicorp/consul/api"
)

// Limits of the settings, which are Consul's own but for MinTTL: a setting outside is refused
// before Consul is asked. Consul's servers have a floor of their own for the TTL, session_ttl_min,
// 10 s by default: what they refuse ends a member at its start.
const (
	MinTTL       = 2 * time.Second
	MaxTTL       = 24 * time.Hour
	MaxLockDelay = 60 * time.Second
)

// MaxTime is the longest that a time of a [Config] may be: a year. Sums of them are reckoned with.
const MaxTime = 365 * 24 * time.Hour

// MinLease is the shortest [Config.Lease].
const MinLease = protocol.MinLease

// NoCheck is the [Config.CheckTTL] of a member without a check.
const NoCheck = -1

// MinCheckTTL is the shortest [Config.CheckTTL].
const MinCheckTTL = time.Second

// minRenew keeps a slip of the pen (--renew 1ns) from being a load on Consul.
const minRenew = 100 * time.Millisecond

// Item is one piece of work as the work function sees it.
type Item struct {
	ID      string
	Payload []byte // the value of the item's workload key when the work was called
	Weight  uint64 // at least 1
	// Token is the fencing token: it rises with every call of the work, and with every grant of
	// the item, to any member. Work that writes anywhere passes it on, and a receiver refuses a
	// token below the highest it has seen: then even work that ignores its context cannot do harm.
	// It is Grant with four more digits, the number of the run.
	Token uint64
	// Grant is the number of the grant that the work runs under: it rises with every grant of the
	// item, to any member, and with every restart of a member. [Coordinator.Locate] and the
	// requests of package dispatch name it.
	Grant uint64
	// Changes receives the item's payload when it changes while the work runs, the newest one only,
	// and at times one that the work has already. Nil without [SendOnChange].
	Changes <-chan []byte
	// Runs may be called with false by work that does not run yet, as a command that waits to be
	// started, and with true once it does. It blocks nobody. Work counts as running from when it is
	// called.
	Runs func(bool)
	// CheckFails may be called beside work that runs, with what is wrong with it, and with an empty
	// text when all is well again. Meanwhile the item is "failing-check". It blocks nobody.
	CheckFails func(why string)
}

// OnChange is what becomes of running work when its item's payload is changed in the workload. The
// member finds out within the leader's merge and two requests, and not while the assignments are
// frozen, nor under a leader of a version before this one.
type OnChange int

const (
	// KeepOnChange: it goes on, and gets the new payload when it is called the next time.
	KeepOnChange OnChange = iota
	// RestartOnChange: it is stopped, and called again with the new payload, on the same member and
	// under the same grant.
	RestartOnChange
	// SendOnChange: it goes on, and receives the new payload from [Item.Changes].
	SendOnChange
)

// Work keeps one item going on this member. It is called once the item is
// owned. Its context ends when the item must be given up, or when the lease is about to end; its
// return is then the release: from that moment another member may start the
// item, so it returns only when the work has really ended. When it returns while the item is still
// owned, with an error or without, it is called again, with backoff, and with the payload and the
// weight that the item has by then. No error of it ends the member, not even one of
// supervisor.Escalate: that is for a tree of the host's own. context.Cause of its context says why
// it ended: see [StopCause].
type Work func(ctx context.Context, item Item) error

// Lead runs while this member leads and no longer: its context ends with the leadership, or when
// the lease is about to end. When it returns earlier it is called again, with backoff, whatever its
// error is: see [Work].
//
// It runs on one member at a time, if it returns when its context ends. So it does not begin with
// the leadership where a leader before this one may still count on its lease: it waits for that
// one's TTL. It begins at once when that one resigned, or its process is known to be dead. One that
// is still running StopTimeout after its member was stopped is waited for in the same way, for a
// TTL from the next leader's beginning, and no longer.
type Lead func(ctx context.Context) error

// Config says who this member is and what it runs. Zero values stand for the
// defaults named at each field.
type Config struct {
	// Service names the cluster: all its keys are below service/<Service>/. Required.
	Service string
	// ID is this member's id, unique in the service, without '/', space, '%' or "..". Required.
	ID string
	// Client talks to Consul. Default: one made from the CONSUL_HTTP_* variables. It speaks
	// HTTP/1.1, and closes its idle connections when a call had no answer in time.
	//
	// A Client of your own that uses TLS should not speak HTTP/2: set Protocols of its
	// http.Transport to HTTP/1 only. Over HTTP/2 all requests share one connection. When its
	// packets are dropped and nothing closes it, each renewal waits on that connection, and the
	// lease is lost. Keep one idle connection at most (MaxIdleConnsPerHost: 1), for the same
	// reason. Its transport must return when the context of a request ends: most calls wait for
	// that.
	Client *api.Client
	// Work runs an item. If it is nil, the member registers with no room for any item: it can lead,
	// watch and route, and runs nothing.
	Work Work
	// Lead runs while this member leads. Nil: nothing does.
	Lead Lead
	// Address is where others reach this member; published, not used here.
	Address string
	// Zone is published with the member's record. Items that move stay in their zone as far as the
	// loads allow, and those of a group, whose ids are alike up to the first colon, are spread over
	// zones.
	Zone string
	// Version is that of this program. It is published with the member's record, and not used.
	Version string
	// WorkVersion is the version of what this member runs; published. While members show different
	// ones, items that move prefer members of the one that came last, up to twice the share of
	// each: so a rollout does not move them to where they would have to leave again. Empty: it does
	// not say; where nobody does, loads stay even in a rollout.
	WorkVersion string
	// Tags are tags of this member's instance in Consul's catalog, beside those that coordd gives
	// it (leader, draining): at most [MostTags]. TAG.SERVICE.service.consul is those with a tag.
	// SetTags changes them.
	Tags []string
	// Capacity is the most weight this member may hold. 0: no limit. [NoItems]: it takes none.
	Capacity uint64
	// MaxRestarts is how often the work of an item may end by itself within RestartWindow and be
	// started again, whatever it returns but an error of [Interrupted]. When it ends once more the
	// item is given up: it is tried at one other member, and where it fails too, or there is none,
	// it is quarantined: nobody runs it until [operator.Client.Restart], or where there was none
	// until another member takes it. Default (0): it is started again for ever.
	MaxRestarts int
	// OnChange is what becomes of running work whose item changes. Default: [KeepOnChange].
	OnChange OnChange
	// StopTimeout is how long work may take to stop before it is named as stuck. Default: 10 s.
	StopTimeout time.Duration
	// KeepItems is how long this member's items wait for it after a clean stop: a restart within
	// that time moves none of them, on whatever host, and none of them runs meanwhile. Default (0):
	// they are handed over at once.
	KeepItems time.Duration
	// Backend of the config store: BackendNone or BackendConsul. Default: none, and every call of
	// it says so.
	Backend string
	// ConfigLog is the directory of the config store's log of writes. Empty: no log, so that a
	// crash loses writes that were not acknowledged.
	ConfigLog string
	// Logger. Default: slog.Default(). Its handler may block: no actor waits for it. What does not
	// fit into 1,024 records is dropped, and counted in the log. Of more than 5 records in 10 s that
	// differ in the item or child, one stands for the others, unless it is enabled for debug.
	Logger *slog.Logger
	// Timing is what experts turn, and Host what few programs set. Their fields are Config's.
	Timing
	Host
}

// Timing has the times of a member, and how much it moves at a time. The zero value stands for the
// defaults, which suit a Consul in one datacenter. What follows from them is in [Bounds].
type Timing struct {
	// TTL of the Consul session: 2 s to 24 h, 10 s by default. Consul's servers refuse less than
	// their session_ttl_min, which is 10 s by default: then Run ends with [ErrInvalid]. Consul ends
	// a session that nobody renews after once to twice its TTL; so long it takes until a lost
	// member is noticed that has no check.
	TTL time.Duration
	// Lease is how long this member counts on a renewal: 2 s to the TTL, which is the default. When
	// it is noticed that a member is lost, its items wait for its lease; and a silence of Consul's
	// is ridden through for about half of it ([Bounds]).
	Lease time.Duration
	// CheckTTL is how long after this member's last report Consul takes it for lost: it registers
	// itself at its Consul agent as an instance of Service, with a check of this TTL, to which it
	// reports eight times as often, and its session ends with that check. 1 s to the TTL. Default
	// (0): 13/20 of the lease, so that no silence of Consul's that the lease rides through ends
	// the check. NoCheck: there is none, and Consul ends the session of a lost member
	// after twice its TTL. An agent that takes no check, or a token without service:write on
	// Service, comes to the same, and the log says so.
	CheckTTL time.Duration
	// Renew is the time from one renewal to the next: 100 ms to half of the lease, and with
	// LeaseMargin less than 19/20 of it. Default: Lease/3.
	Renew time.Duration
	// LockDelay is how long Consul keeps a lock from being taken after its session has ended: 1 ms
	// to 60 s. Default (0): 1 ms, the shortest that Consul's client asks for. The protocol does not
	// lean on it.
	LockDelay time.Duration
	// LeaseMargin is how long before the end of the lease work is told to stop. Default: Lease/10.
	LeaseMargin time.Duration
	// Grace is how long a vanished member's items wait for it at the least: the lease or more. They
	// wait for the lease that it may hold in any case. Default: 0, no longer than that.
	Grace time.Duration
	// LeaderSoak is the quiet time before items are moved for balance alone. Default: 5 s.
	LeaderSoak time.Duration
	// Merge is the quiet time before free items are placed, so that changes
	// which come together are planned together; four times as much at the most. Default: 250 ms.
	Merge time.Duration
	// WorkerSoak is the time from an item's assignment to the start of its work, unless it was
	// taken over from a lost member: such an item has waited already. Default: 0.5 s.
	WorkerSoak time.Duration
	// MoveBudget is the most items that are on the move at one time for balance, or from members
	// that operators drain. One whose work takes longer than StopTimeout to stop counts no more.
	// Default: 1,000, or no number where MoveBudgetShare is given.
	MoveBudget int
	// MoveBudgetShare is the same as a share of the workload, above 0 and up to 1. Where both are
	// given the smaller one holds. One item may always move. Default: 0, none.
	MoveBudgetShare float64
	// RestartWindow is the time within which MaxRestarts counts: 1 s to 24 h. Default: 10 minutes.
	RestartWindow time.Duration
	// BrakeHold is how long the leader waits for members to come back when more
	// than half of those with work (and more than three) have vanished. Default: 6 x TTL.
	BrakeHold time.Duration
}

// Host is what a program says of itself and wants to be told, beside the rest: for supervisors of
// commands, for metrics and for tests. The zero value stands for the defaults.
type Host struct {
	// Consul is what the log calls Client's server. Default: CONSUL_HTTP_ADDR, or the address of a
	// failed request.
	Consul string
	// Observer is told of each call to Consul, each renewal and each write of the leader: see
	// package actors/metrics. It must not block. Default: nobody is told, which costs nothing.
	Observer Observer
	// Process is who this is among processes. Default: read from the system. For
	// tests that play several hosts in one process.
	Process *Process
	// Liveness tells whether a predecessor's process still runs, or any of its commands. Default:
	// asks the system for the process; what is Dead and may have commands that outlive it is
	// Unknown.
	Liveness func(Process) Liveness
	// Lock is Process.Lock, asked whenever this member writes down who it is. Default: NoLock, for
	// work that ends with this process.
	Lock func() string
	// Copied says that this machine may run twice, as when it is resumed from one live snapshot
	// again. Then a predecessor's lease is waited for although its process is not here. Default:
	// no; the first process that is ended so while it lives finds out.
	Copied bool
}

// The backends of the config store.
const (
	BackendNone   = "none"
	BackendConsul = "consul"
)

// Process says which process holds a member's record: instance, host, boot, pid and the pid's start
// time.
type Process = protocol.Process

// NoLock is the Process.Lock of a process whose work ends with it.
const NoLock = protocol.NoLock

// Liveness is what is known of a process.
type Liveness = protocol.Liveness

// What can be known of a process.
const (
	Unknown = protocol.Unknown
	Alive   = protocol.Alive
	Dead    = protocol.Dead
)

// ErrConfig is returned by [New] for a setting that cannot work; the text says which, and its
// range. It is the ErrConfig of packages routing and dispatch, too.
var ErrConfig = routing.ErrConfig

// ErrInvalid is returned by [Coordinator.Run] for a setting that Consul refuses; the text names it.
var ErrInvalid = store.ErrInvalid

// ErrIDTaken is returned by [Coordinator.Run] when another living process has this
// member's id; the text names it.
var ErrIDTaken = member.ErrIDTaken

// ErrUnfit is returned by [Coordinator.Run] when the token lacks rights that a member needs, or is
// not known to Consul, for 30 s from the start; the text names the rules.
var ErrUnfit = member.ErrUnfit

// ErrProtocol is returned by [Coordinator.Run] when a registered member speaks a later version of
// the protocol.
var ErrProtocol = protocol.ErrProtocol

// ErrStarted is returned by [Coordinator.Run] when it was called before.
var ErrStarted = routing.ErrStarted

func (c Config) withDefaults() Config {
	c.TTL = cmp.Or(c.TTL, store.DefaultTTL)
	c.Lease = cmp.Or(c.Lease, c.TTL)
	c.CheckTTL = cmp.Or(c.CheckTTL, max(13*c.Lease/20, MinCheckTTL))
	c.Renew = cmp.Or(c.Renew, c.Lease/3)
	c.LockDelay = cmp.Or(c.LockDelay, time.Millisecond)
	c.LeaseMargin = cmp.Or(c.LeaseMargin, c.Lease/10)
	c.LeaderSoak = cmp.Or(c.LeaderSoak, 5*time.Second)
	c.Merge = cmp.Or(c.Merge, 250*time.Millisecond)
	c.WorkerSoak = cmp.Or(c.WorkerSoak, 500*time.Millisecond)
	c.StopTimeout = cmp.Or(c.StopTimeout, 10*time.Second)
	c.BrakeHold = cmp.Or(c.BrakeHold, 6*c.TTL)
	if c.MoveBudgetShare == 0 {
		c.MoveBudget = cmp.Or(c.MoveBudget, 1000)
	}
	c.RestartWindow = cmp.Or(c.RestartWindow, 10*time.Minute)
	c.Backend = cmp.Or(c.Backend, BackendNone)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Process == nil {
		self := protocol.Self(newInstance())
		c.Process = &self
	}
	if c.Liveness == nil {
		c.Liveness = withoutCommands
	}
	if c.Lock == nil {
		c.Lock = func() string { return NoLock }
	}
	return c
}

// withoutCommands is the liveness of what this process can know by itself: no more than that of
// processes.
func withoutCommands(p Process) Liveness {
	l := p.Liveness()
	if l == Dead && p.Lock != NoLock {
		return Unknown
	}
	return l
}

// Validate tells what is wrong with the settings, all of it; nil when nothing is.
func (c Config) Validate() error {
	var f faults
	_, err := protocol.KeysOf(c.Service)
	f.add(err != nil, "%v", err)
	err = protocol.CheckMemberID(c.ID)
	f.add(err != nil, "%v", err)
	err = CheckTags(c.Tags)
	f.add(err != nil, "%v", err)
	d := c.withDefaults()
	for _, s := range c.spans(d) {
		f.add(s.v != 0 && (s.v < s.least || s.v > s.most), "%s %v: give one of %v to %v%s",
			s.name, s.v, s.least, s.most, s.why)
	}
	most := d.Lease - d.Lease/20
	f.add(d.Renew+d.LeaseMargin >= most,
		"renew %v and lease-margin %v: give less than %v together, "+
			"or the work stops before Consul has answered a renewal", d.Renew, d.LeaseMargin, most)
	f.add(d.Backend != BackendNone && d.Backend != BackendConsul,
		"backend %q: give none or consul", d.Backend)
	f.add(d.ConfigLog != "" && d.Backend != BackendConsul,
		"config-log %q: it takes the backend consul", d.ConfigLog)
	f.add(d.OnChange < KeepOnChange || d.OnChange > SendOnChange,
		"on-change %d: give KeepOnChange, RestartOnChange or SendOnChange", d.OnChange)
	f.add(d.MaxRestarts < 0, "max-restarts %d: give 1 or more, or 0 for no limit", d.MaxRestarts)
	f.add(d.MoveBudget < 0, "move-budget %d: give 1 or more", d.MoveBudget)
	f.add(!(d.MoveBudgetShare >= 0 && d.MoveBudgetShare <= 1), // not a number is neither
		"move-budget share %v: give more than 0 and at most 1, of the workload", d.MoveBudgetShare)
	return errors.Join(f...)
}

// faults are what is wrong with settings.
type faults []error

func (f *faults) add(wrong bool, format string, args ...any) {
	if wrong {
		*f = append(*f, fmt.Errorf("%w: %s", ErrConfig, fmt.Sprintf(format, args...)))
	}
}

// span is a time as it was given, and the least and the most that it may be. Zero stands for a
// default, which is right if the times that it is made from are.
type span struct {
	name           string
	v, least, most time.Duration
	why            string
}

// spans has the limits of each time; d are the settings with their defaults.
func (c Config) spans(d Config) []span {
	check := c.CheckTTL
	if check == NoCheck {
		check = 0
	}
	return []span{
		{"ttl", c.TTL, MinTTL, MaxTTL,
			", and at least the session_ttl_min of Consul's servers (10s by default)"},
		{"lease", c.Lease, MinLease, d.TTL, " (the ttl)"},
		{"check-ttl", check, MinCheckTTL, d.TTL, " (the ttl), or none"},
		{"renew", c.Renew, minRenew, d.Lease / 2, " (half of the lease)"},
		{"lease-margin", c.LeaseMargin, 0, d.Lease / 2, " (half of the lease)"},
		{"lock-delay", c.LockDelay, 0, MaxLockDelay, ""},
		{"grace", c.Grace, d.Lease, MaxTime, ": items wait for the lease in any case"},
		{"keep-items", c.KeepItems, 0, protocol.MaxKeep, ""},
		{"restart-window", c.RestartWindow, time.Second, protocol.FailedFor, ""},
		{"leader-soak", c.LeaderSoak, 0, MaxTime, ""},
		{"worker-soak", c.WorkerSoak, 0, MaxTime, ""},
		{"merge", c.Merge, 0, MaxTime, ""},
		{"stop-timeout", c.StopTimeout, 0, MaxTime, ""},
		{"brake-time", c.BrakeHold, 0, MaxTime, ""},
	}
}

func newInstance() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
