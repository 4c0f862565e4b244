package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/history"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/supervisor"
	"github.com/hashicorp/consul/api"
)

// world is one run.
type world struct {
	plan     plan
	consul   *devconsul.Server
	empty    devconsul.Snapshot // before anything was written
	client   *api.Client
	user     *protocol.Store
	operator *operator.Client // the user too, by his own command
	root     string
	rec      *history.Recorder
	log      *slog.Logger
	bound    time.Duration
	mutant   *mutant // nil: none

	flying  sync.WaitGroup // requests, and whatever else must end before the run does
	actions []action       // that are still to come, from begin on
	begin   time.Time
	calm    atomic.Bool
	calmed  chan struct{}               // closed with it
	items   atomic.Int64                // made so far
	agents  map[string]*devconsul.Agent // of members, by id; none: the server's serves all
	ambush  atomic.Int32                // how many receivers of take-overs are still to be struck

	wire   sync.Mutex
	sender atomic.Pointer[sender]

	mu        sync.Mutex
	procs     map[string]*process // member -> the one that runs
	all       []*process
	runs      map[string]int
	keys      map[string]bool // in Consul
	answers   map[string][]kept
	sessions  map[string]lifetime
	snapshots []snapshot
	work      map[string]bool
	left      map[string]bool // members that went for good
	failures  []string
	nextItem  int
	changes   int          // of payloads
	duties    []*duty      // Lead functions that run
	noReports atomic.Int64 // from when on no agent takes reports, in Unix nanoseconds; 0: they do
	hanging   *process     // of which an actor hangs for good
	lawless   bool         // a stranger has deleted the leader key
	guests    []string     // sessions of strangers
	spans     []span       // see unfair
	marks     []mark
	struck    []string // members, see strike

	orders int            // that an operator has given for single items
	pins   map[string]int // item -> the last one for it
	drains map[string]int // member -> the last one for it
	wishes map[string]int // item -> the last one for it

	disk  string            // of all hosts, for the logs of config writes; empty: there are none
	dirs  []string          // of every process that had a log
	logs  map[string]string // member -> the directory that its next process goes on with
	loose map[string]bool   // directories whose log nobody has gone on with
}

type snapshot struct {
	at   time.Time
	data devconsul.Snapshot
}

// outcome is what a run came to.
type outcome struct {
	plan     plan
	report   history.Report
	events   []history.Event
	failures []string // beside of the report's breaches
	virtual  time.Duration
}

func (o outcome) failed() bool { return len(o.failures) > 0 || len(o.report.Breaches) > 0 }

// rules are those that were broken.
func (o outcome) rules() []string {
	var rules []string
	for _, b := range o.report.Breaches {
		rules = append(rules, b.Rule)
	}
	for _, f := range o.failures {
		rule, _, _ := strings.Cut(f, ":")
		rules = append(rules, rule)
	}
	slices.Sort(rules)
	return slices.Compact(rules)
}

func (o outcome) String() string {
	var s strings.Builder
	for _, f := range o.failures {
		fmt.Fprintln(&s, f)
	}
	fmt.Fprint(&s, o.report)
	return s.String()
}

// play runs a plan in a bubble.
func play(t *testing.T, p plan, m *mutant, log *slog.Logger) (o outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { o = newWorld(p.effective(), m, log).run() })
	o.plan = p // which may be played again with less of it
	return o
}

func newWorld(p plan, m *mutant, log *slog.Logger) *world {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	ids := 0
	w := &world{
		plan: p, mutant: m, log: log, rec: history.NewMemory(), root: "service/sim/",
		procs: map[string]*process{}, runs: map[string]int{}, keys: map[string]bool{},
		calmed: make(chan struct{}), answers: map[string][]kept{}, work: map[string]bool{},
		left: map[string]bool{},
		logs: map[string]string{}, loose: map[string]bool{}, pins: map[string]int{},
		drains: map[string]int{}, wishes: map[string]int{},
		sessions: map[string]lifetime{},
	}
	if p.settings.config == loggedConfig {
		disk, err := os.MkdirTemp("", "coordd-sim-")
		if err != nil {
			panic(err)
		}
		w.disk = disk
	}
	w.consul = devconsul.New(devconsul.Config{NoJitter: true, NewID: func() string {
		ids++
		return fmt.Sprintf("%08x-0000-0000-0000-%012x", p.seed&0xffffffff, ids)
	}})
	w.addAgents()
	w.empty = w.consul.Snapshot()
	w.consul.OnCommit(w.committed)
	w.client = w.consul.Client()
	var err error
	if w.user, err = protocol.New("sim", store.Config{Client: w.client,
		Logger: slog.New(slog.DiscardHandler)}); err != nil {
		panic(err)
	}
	if w.operator, err = operator.New(w.client, "sim"); err != nil {
		panic(err)
	}
	s := p.settings
	// A poll that is never answered lasts a minute and a sixteenth and the call's timeout. A
	// session lives twice its TTL; then lock-delay, grace, a successor's wait; what a member that
	// stopped asked for; the brake for vanished members; the quiet times; a rung of the ladder here
	// and there.
	ttl := s.longest()
	w.bound = s.keep + s.longer() + 67*time.Second + 2*ttl + time.Second + ttl + ttl + 6*ttl +
		2*s.soak + 30*time.Second
	return w
}

func (w *world) run() outcome {
	begin := time.Now()
	w.addWork(w.plan.items)
	for i, id := range w.plan.ids {
		if i > 0 {
			time.Sleep(time.Duration(i%3) * 200 * time.Millisecond)
		}
		w.start(id)
	}
	time.Sleep(5 * time.Second)
	w.misfortune()
	w.restoreOrder()
	spread := 1
	if w.hanging != nil {
		spread = -1 // judgeHung says what is even
		w.bound += w.stuck()
	}
	w.bound += w.transfers()
	if w.plan.settings.versions {
		spread = -1 // of a rollout the planner's tests say what is even
	}
	w.rec.Add(history.Event{Verb: history.Calm, For: w.bound, Spread: spread})
	// What failed in the last moment is counted, published and judged by the leader only then.
	time.Sleep(lastFailures)
	w.release()
	time.Sleep(w.bound/2 - lastFailures)
	w.overrideBrake()
	time.Sleep(w.bound - w.bound/2 - restFor)
	rest := w.resting()
	time.Sleep(restFor + time.Second)
	rest()
	w.judgeDuty()
	w.judgeChanges()
	if w.plan.profile == "gentle" {
		w.judgeGentle()
	}
	w.judgeConfig()
	w.judgeHung()
	w.rec.Add(history.Event{Verb: history.Close})
	w.dismiss()
	w.letGo(true)
	w.stopAll()
	w.flying.Wait()
	w.replayConfig()
	w.leftovers()
	w.consul.Close()
	events := w.rec.Events()
	w.judgeOwners(events)
	return outcome{
		plan: w.plan, report: history.Check(events, history.Options{}), events: events,
		failures: w.failures, virtual: time.Since(begin),
	}
}

func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures = append(w.failures, fmt.Sprintf(format, args...))
}

// start runs a new process of a member; nil: one runs already.
func (w *world) start(id string) *process {
	if a := w.agents[id]; a != nil {
		a.Start() // with the machine
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.procs[id]; p != nil {
		return nil
	}
	p := w.newProcess(id, false)
	w.procs[id] = p
	return p
}

// newProcess is another run of a member: on its host, or as a twin on another one.
func (w *world) newProcess(id string, twin bool) *process {
	w.runs[id]++
	p := &process{w: w, id: id, n: w.runs[id], twin: twin, began: time.Now(),
		running: map[string]uint64{}, under: map[string]string{}, known: map[string]string{},
		still: make(chan struct{}, 1),
		done:  make(chan struct{}), gone: make(chan struct{})}
	p.link = &link{w: w, p: p}
	s := w.plan.settings
	ttl := s.ttl
	if s.long > 0 && p.n%2 == 1 {
		ttl = s.long
	}
	lease := ttl
	if s.lease > 0 && (p.n+len(id))%2 == 0 {
		lease = min(s.lease, ttl)
	}
	c := actors.Config{
		Host: actors.Host{Process: &actors.Process{Instance: p.name(), Host: id + ".test",
			BootID:       id,
			PIDNamespace: "1", PID: p.n, StartTime: 1}, Liveness: func(q actors.Process) actors.Liveness {
			p.hold("liveness")
			return w.liveness(p, q)
		}, Lock: p.lock, Copied: s.copied},
		Timing: actors.Timing{TTL: ttl, Lease: lease, LeaseMargin: s.margin, LeaderSoak: s.soak,
			Merge: s.merge, WorkerSoak: s.workerSoak, MoveBudget: s.budget,
			LockDelay: s.lockDelay, RestartWindow: s.window},
		Service: "sim", ID: id, Client: devconsul.ClientOver(p.link), Logger: w.log.With("n", p.n),

		StopTimeout: s.stopping(),
		KeepItems:   s.keep, MaxRestarts: s.restarts,

		Work: p.work,
		Lead: p.lead, OnChange: w.onChange(id),
	}
	if s.zones {
		c.Zone = []string{"a", "b"}[hash(id)%2]
	}
	if s.versions {
		c.WorkVersion = fmt.Sprint(p.n)
	}
	if !s.check {
		c.CheckTTL = actors.NoCheck
	}
	w.configured(&c, twin)
	p.slowDown(&c)
	c.Grace, c.BrakeHold = time.Duration(s.grace*float64(c.TTL)),
		time.Duration(s.brake*float64(c.TTL))
	var err error
	if p.member, err = actors.New(c); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	w.all = append(w.all, p)
	w.rec.Add(history.Event{Verb: history.Boot, Proc: p.name()})
	w.flying.Add(2)
	go func() {
		defer w.flying.Done()
		p.follow()
	}()
	if w.configures(id) {
		w.later(p.configure)
	}
	go func() {
		defer w.flying.Done()
		err := p.member.Run(ctx)
		cancel()
		w.ended(p, err)
		close(p.done)
	}()
	return p
}

// liveness is what a member knows of its predecessor: on one host everything, else nothing; on a
// copy of its host that no such process is there.
func (w *world) liveness(by *process, q actors.Process) actors.Liveness {
	if !w.plan.settings.knows {
		return actors.Unknown
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.all {
		if p.name() == q.Instance {
			p.mu.Lock()
			defer p.mu.Unlock()
			switch {
			case w.plan.settings.copied && p.twin != by.twin:
				return actors.Dead
			case !p.dead:
				return actors.Alive
			case p.orphans > 0:
				return actors.Unknown
			}
			return actors.Dead
		}
	}
	return actors.Unknown
}

// ended takes in that a process has ended by itself or was told to.
func (w *world) ended(p *process, err error) {
	p.mu.Lock()
	dead, leaving, stood := p.dead, p.leaving, p.stood
	p.dead = true
	if !dead {
		close(p.gone)
		w.rec.Add(history.Event{Verb: history.End, Proc: p.name()})
	}
	p.mu.Unlock()
	w.mu.Lock()
	if w.procs[p.id] == p {
		delete(w.procs, p.id)
	}
	w.mu.Unlock()
	switch {
	case dead:
	case errors.Is(err, actors.ErrIDTaken):
	case stood && errors.As(err, new(*supervisor.StuckError)):
	case err != nil:
		w.fail("END: %s ended with %v", p.name(), err)
	case !leaving:
		w.fail("END: %s ended by itself", p.name())
	}
}

// kill ends a process as kill -9 does.
func (w *world) kill(p *process) {
	p.mu.Lock()
	if p.dead {
		p.mu.Unlock()
		return
	}
	p.dead, p.killed = true, true
	close(p.gone)
	p.die()
	p.mu.Unlock()
	w.mu.Lock()
	if w.procs[p.id] == p {
		delete(w.procs, p.id)
	}
	w.mu.Unlock()
	w.mourn(p, p.member.Membership().Get())
	p.cancel()
}

// stop ends a process cleanly, unless the faults are over before it has begun: who lives then is to
// work.
func (w *world) stop(p *process) { w.stopWhile(p, func() bool { return !w.calm.Load() }) }

// stopWhile ends a process cleanly if that is still due. One that is frozen hears of it when it
// thaws.
func (w *world) stopWhile(p *process, due func() bool) {
	w.later(func() {
		for {
			if !p.awake() || !due() {
				return
			}
			if over := p.holding(); over != nil {
				select {
				case <-over:
				case <-p.gone:
				}
				continue
			}
			p.mu.Lock()
			p.leaving = p.thawed == nil && len(p.stands) == 0
			leaving := p.leaving
			p.mu.Unlock()
			if leaving {
				p.cancel()
				return
			}
		}
	})
}

// addWork writes n new items, as a user.
// retry does what a user does whom Consul answers with an error: try again.
func (w *world) retry(f func(context.Context) error) {
	for range 200 {
		if f(context.Background()) == nil {
			return
		}
		w.playUntil(time.Now().Add(200 * time.Millisecond))
	}
}

// stopAll stops every process cleanly.
func (w *world) stopAll() {
	w.mu.Lock()
	procs := slices.Collect(maps.Values(w.procs))
	w.mu.Unlock()
	for _, p := range procs {
		w.stopWhile(p, func() bool { return true })
	}
	for _, p := range procs {
		<-p.done
	}
}
