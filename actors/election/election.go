package election

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/actors/election/internal/contained"
	"github.com/coordd/coordd/internal/asynclog"
	"github.com/coordd/coordd/messages"
)

// Election is one participation in an election, as a candidate or as a follower. It also gives
// orders, without taking part. Its methods may be called from any goroutine.
type Election struct {
	cfg     Config
	backend Backend
	log     *slog.Logger
	state   *messages.State[Status]

	used    atomic.Bool
	resign  chan struct{} // closed by Resign
	once    sync.Once
	drained chan struct{}
	done    chan struct{}
}

// New returns an Election over conn. It does nothing yet. The error is ErrInvalid and names all
// that is wrong.
func New(conn Connection, cfg Config) (*Election, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	b, err := conn.Open(cfg.Election)
	if err != nil {
		return nil, err
	}
	cfg.Logger = asynclog.Wrap(cfg.Logger)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Election{
		cfg: cfg, backend: b, log: cfg.Logger.With("election", cfg.Election),
		state:  messages.NewState(Status{}),
		resign: make(chan struct{}), drained: make(chan struct{}, 1), done: make(chan struct{}),
	}, nil
}

// Nominate makes this a candidate and returns at once. All news comes through the channel. When ctx
// ends the candidate resigns, as with Resign; but a leader without a Lead function must still call
// Drained, within Config.DrainTimeout. An Election is nominated once: ErrStarted.
func (e *Election) Nominate(ctx context.Context) (<-chan Status, error) {
	if e.cfg.Name == "" {
		return nil, invalid("Name", "it is empty; give the candidate a name")
	}
	if e.cfg.Schedule != "" && e.cfg.Lead == nil {
		return nil, invalid("Schedule", "it needs a Lead function")
	}
	return e.start(ctx, false)
}

// Follow reports the election through the channel without being a candidate. It ends when ctx ends,
// when Resign is called, or when the election is over. An Election follows or is nominated once:
// ErrStarted.
func (e *Election) Follow(ctx context.Context) (<-chan Status, error) { return e.start(ctx, true) }

func (e *Election) start(ctx context.Context, follower bool) (<-chan Status, error) {
	if !e.used.CompareAndSwap(false, true) {
		return nil, ErrStarted
	}
	self := Candidate{Name: e.cfg.Name, Priority: e.cfg.Priority, Address: e.cfg.Address}
	if !follower {
		self.ID = rand.Text()[:16]
	}
	s := &shell{
		Election: e, machine: newMachine(e.cfg, self, follower), outbox: newOutbox(),
		view: messages.NewState(numberedView{}), outcomes: make(chan outcome, 1),
		duties: make(chan error, 1), broken: make(chan error, 1),
	}
	s.begin(ctx)
	return s.outbox.out, nil
}

// State returns the newest status, as a state that can be read, waited for and subscribed to. The
// channel of Nominate may be behind it, never ahead.
func (e *Election) State() messages.Reader[Status] { return e.state.Reader() }

// Resign ends this participation. A leader's duties are stopped, then its record is removed, then
// the channel is closed. Resign returns at once. It may be called at any moment, before Nominate
// too, and more than once. Without a Lead function the call also says that the duties have stopped:
// stop them before.
func (e *Election) Resign() { e.once.Do(func() { close(e.resign) }) }

// Drained says that a leader without a Lead function has stopped its duties, after the role
// Draining or Out told it to. At any other time it has no effect. It returns at once.
func (e *Election) Drained() {
	if r := e.state.Get().Role; r != Draining && r != Out { // set before anybody is told
		return
	}
	select {
	case e.drained <- struct{}{}:
	default:
	}
}

// Done returns a channel that is closed when the participation is over, just after the channel of
// Nominate or Follow.
func (e *Election) Done() <-chan struct{} { return e.done }

// Err returns why the participation failed. It is nil while the participation goes on, and if it
// ended without a failure.
func (e *Election) Err() error { return e.state.Get().Err }

// Candidates returns the candidates, the next leader first as far as the order is known.
func (e *Election) Candidates(ctx context.Context) ([]Candidate, error) {
	return e.backend.Candidates(ctx)
}

// HandOver asks the leader to make way for a candidate, given by its ID, or by its name if only one
// candidate has it. The others hold back for a bounded time. HandOver returns when the order is
// written, or when it may have been and what it was for is over: another leads, or was asked for,
// or nobody leads. The statuses say who leads then. ErrNoCandidate, ErrNoLeader; on Consul also
// ErrEnded, ErrDeleted.
func (e *Election) HandOver(ctx context.Context, to string) error {
	all, err := e.backend.Candidates(ctx)
	if err != nil {
		return err
	}
	var found []Candidate
	for _, c := range all {
		if c.ID == to {
			return e.backend.HandOver(ctx, c.ID, 0)
		}
		if c.Name == to {
			found = append(found, c)
		}
	}
	switch len(found) {
	case 0:
		return fmt.Errorf(
			"hand-over of %s: %w: nobody is called %q; give the name or the id of a candidate",
			e.cfg.Election, ErrNoCandidate, to)
	case 1:
		return e.backend.HandOver(ctx, found[0].ID, 0)
	}
	return fmt.Errorf("hand-over of %s: %w: %d are called %q; give the id of one of them",
		e.cfg.Election, ErrNoCandidate, len(found), to)
}

// End ends the election for everyone, now and later: until it is deleted, every Nominate and Follow
// ends at once. The leader stops its duties first. End returns when the store has the order.
func (e *Election) End(ctx context.Context) error { return e.backend.End(ctx) }

// Delete ends the election, waits until nobody leads, and removes all that the store has of it. If
// ctx ends first, the election stays ended, and another Delete goes on. ErrInvalid: what is there
// is something else's, as with a wrong prefix or root. Nothing is changed then.
func (e *Election) Delete(ctx context.Context) error { return e.backend.Delete(ctx) }

// errNotBegun says that the lease was over when the duty was to begin.
var errNotBegun = errors.New("the lease is over")

// errToldToStop says that the duty ended when it was told to.
var errToldToStop = errors.New("told to stop")

// shell is the goroutine around the machine.
type shell struct {
	*Election
	machine  *machine
	outbox   *outbox
	view     *messages.State[numberedView]
	outcomes chan outcome
	duties   chan error
	broken   chan error // cap 1: why the watch is dead

	stopOp, stopDuty context.CancelFunc
	group            sync.WaitGroup
}

// numberedView is a view and its number.
type numberedView struct {
	n uint64
	View
}

// begin runs the loop in a goroutine of its own, and clears up behind it.
func (s *shell) begin(parent context.Context) {
	// Resigning goes on after the end of parent. The backend bounds it.
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	contained.Go(s.log, "the election's loop", func() error {
		s.loop(ctx, parent)
		return nil
	}, func(err error) {
		cancel()
		if err != nil {
			_ = contained.Call(s.log, "the end of a broken loop", func() error {
				s.abandon(context.WithoutCancel(parent), err)
				return nil
			})
		}
		s.group.Wait()
		s.outbox.close()
		close(s.done)
	})
}

// watch publishes what the backend sees, and why it sees nothing any more.
func (s *shell) watch(ctx context.Context) {
	contained.Run(s.log, "the watch", func() error {
		var n uint64
		s.backend.Watch(ctx, func(v View) {
			n++
			s.view.Set(numberedView{n, v})
		})
		if ctx.Err() == nil {
			return fmt.Errorf("%w: the watch has ended by itself", ErrBroken)
		}
		return nil
	}, func(err error) {
		if err != nil {
			s.broken <- err
		}
	})
}

func (s *shell) loop(ctx, parent context.Context) {
	s.group.Go(func() { s.watch(ctx) })
	contact, view := s.backend.Contact().Subscribe(), s.view.Subscribe()
	timer := time.NewTimer(0)
	defer timer.Stop()
	ended, resigned := parent.Done(), (<-chan struct{})(s.resign)
	for finished := false; !finished; {
		send, message := s.outbox.next()
		select {
		case send <- message:
			s.outbox.sent()
			continue
		case <-contact.Changed():
		case <-view.Changed():
		case <-ended:
			ended = nil
			s.machine.resign(false)
		case <-resigned:
			resigned = nil
			s.machine.resign(true)
		case <-s.drained:
			s.machine.drained()
		case r := <-s.outcomes:
			s.stopOp()
			s.machine.done(time.Now(), r)
		case err := <-s.duties:
			s.machine.dutyEnded(err)
		case err := <-s.broken:
			s.machine.finish(Status{Err: err})
		case <-timer.C:
		}
		s.machine.contact = contact.Take()
		if v := view.Take(); v.n > 0 {
			s.machine.view, s.machine.views = v.View, v.n
		}
		finished = s.apply(ctx, timer)
	}
}

// abandon ends a participation whose loop has panicked: nobody is left who would step the machine.
// The duty has been told to stop, and its record is given up when it has.
func (s *shell) abandon(ctx context.Context, err error) {
	m := s.machine
	if s.state.Get().What != Over {
		final := Status{What: Over, Role: Out, Self: m.self, Err: err}
		s.state.Set(final)
		s.outbox.put(final)
		s.logStatus(m.newest, final)
	}
	if !m.lead && m.dutyRunning {
		over := time.NewTimer(m.lease.Left(time.Now()))
		defer over.Stop()
		select {
		case <-s.drained:
		case <-s.resign:
		case <-over.C:
		}
	}
	s.group.Wait() // the Lead function, and the operation under way
	if m.joinAttempted && !m.left {
		_ = contained.Call(s.log, opLeave.String(), func() error { return s.backend.Leave(ctx) })
	}
}

// apply steps the machine and does what it says.
func (s *shell) apply(ctx context.Context, timer *time.Timer) (finished bool) {
	now := time.Now()
	e := s.machine.step(now)
	if e.stopDuty { // before anything else
		s.stopDuty()
	}
	if e.cancel {
		s.stopOp()
	}
	was := s.state.Get()
	for _, m := range e.messages {
		s.state.Set(m)
		s.outbox.put(m)
	}
	if e.startDuty {
		s.startDuty(ctx)
	}
	if e.start != opNone {
		s.perform(ctx, e.start)
	}
	if e.failure != nil {
		s.log.Warn("election-operation-failed", "candidate", s.machine.self.Name, "operation",
			e.failure.op.String(), "err", e.failure.err, "then", "it is tried again")
	}
	if e.overdue {
		s.log.Warn("drained-not-called", "candidate", s.machine.self.Name, "waited",
			s.machine.drainTimeout.String(), "do",
			"call Drained when the duties have stopped, or set Lead")
	}
	if e.wake.IsZero() {
		timer.Stop()
	} else {
		timer.Reset(max(0, e.wake.Sub(now)))
	}
	if len(e.messages) > 0 {
		runtime.Gosched() // the operation, and who reads the messages, before the log
	}
	for _, m := range e.messages {
		s.logStatus(was, m)
		was = m
	}
	return e.finished
}

// perform runs one operation in a goroutine of its own, so that the loop goes on meanwhile.
func (s *shell) perform(ctx context.Context, what op) {
	call, cancel := context.WithCancel(ctx)
	s.stopOp = cancel
	self, from := s.machine.self, s.machine.handOverAsked
	s.group.Go(func() {
		r := outcome{op: what}
		contained.Run(s.log, what.String(), func() (err error) {
			switch what {
			case opJoin:
				r.session, err = s.backend.Join(call, self)
			case opTake:
				r.token, r.retry, err = s.backend.Take(call)
			case opRelease:
				err = s.backend.Release(call)
			case opHandOver:
				err = s.backend.HandOver(call, self.ID, from)
			case opLeave:
				err = s.backend.Leave(call)
			}
			return err
		}, func(err error) {
			r.err = err
			s.outcomes <- r
		})
	})
}

// startDuty runs the duty.
func (s *shell) startDuty(ctx context.Context) {
	duty, cancel := context.WithCancel(ctx)
	s.stopDuty = cancel
	if s.cfg.Lead == nil {
		select {
		case <-s.drained: // said of an earlier leadership
		default:
		}
		return
	}
	status, session, margin := s.machine.newest, s.machine.session, s.machine.marginOf()
	// The process may have been frozen since the loop looked, or since a run was recorded.
	notBegun := func() error {
		if c := s.backend.Contact().Get(); c.Session != session ||
			!c.Lease.Valid(time.Now(), margin) {
			return errNotBegun
		}
		return nil
	}
	s.group.Go(func() {
		contained.Run(s.log, "the Lead function", func() error {
			if err := notBegun(); err != nil {
				return err
			}
			if schedule, err := ParseSchedule(s.cfg.Schedule); err == nil {
				return (&rounds{shell: s, led: status, schedule: schedule,
					notBegun: notBegun}).run(duty)
			}
			return s.cfg.Lead(duty, status)
		}, func(err error) {
			if duty.Err() != nil {
				err = errToldToStop // whatever it says, it has stopped
			}
			s.duties <- err
		})
	})
}

// logStatus logs a message and what it changes.
func (s *shell) logStatus(was, m Status) {
	args := []any{"candidate", m.Self.Name}
	if m.Reason != "" {
		args = append(args, "why", m.Reason)
	}
	switch {
	case m.Role == Leading && was.Role != Leading:
		s.log.Info("became-leader", append(args, "token", m.Token)...)
	case m.Role == Draining && was.Role != Draining:
		s.log.Info("stops-leading", append(args, "token", m.Token)...)
	case m.Role == Out && m.Err != nil:
		s.log.Warn("election-failed", append(args, "err", m.Err, "led", was.Role == Leading ||
			was.Role == Draining)...)
	case m.Role == Out:
		s.log.Info("election-over", append(args, "resigned", m.Resigned, "ended", m.Ended,
			"deleted", m.Deleted)...)
	case was.Role == Leading && m.Role != Leading && m.Role != Draining, was.Role == Draining &&
		m.Role == Uncertain:
		s.log.Warn("lost-leadership", args...)
	case m.Role != was.Role || m.What == Waiting:
		s.log.Info("role-changed", append(args, "role", m.Role.String())...)
	case m.What == NewLeader:
		s.log.Info("new-leader", append(args, "leader", m.Leader.Name, "token", m.Token)...)
	}
}
