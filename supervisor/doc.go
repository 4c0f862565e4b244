// Package supervisor keeps the goroutines of a service running, and stops them in order:
//
//	s, err := supervisor.New("host", supervisor.Tree{Children: []supervisor.Child{
//		supervisor.Signals(),
//		{Name: "poller", Run: poll}, // func(context.Context) error; restarted when it ends
//	}})
//	...
//	err = s.Run(ctx) // until ctx ends, a signal comes, or poll fails too often
//
// It is a library of its own: a tree of supervisors in the manner of Erlang/OTP. A [Child] is a
// function, or a [Tree] of children. [New] checks the tree, [Supervisor.Run] runs it beside
// whatever else the host does. [Serve], [Actor] and [Together] take servers, actors of oklog/run
// and functions of an errgroup.
//
// # Guarantees
//
//  1. Children start in order; after a gated child, only when it is ready. They
//     stop in reverse, one at a time (or all at once: Tree.StopTogether), each with
//     its own deadline.
//  2. No two incarnations of a child overlap, ever: one starts only after the
//     goroutine of the one before has ended. Where that is not to be had, the tree
//     escalates.
//  3. A child that ended is restarted as its Restart type says (Permanent,
//     Transient, Temporary), after its own backoff, with those siblings that the
//     Strategy names (OneForOne, OneForAll, RestForOne). A healthy run resets the
//     backoff. One that returns [ErrDoNotRestart] is not restarted; [ErrTerminate]
//     stops the whole tree in order.
//  4. More than MaxRestarts restarts of a child, or of a group that restarts
//     together, within Period of running escalate: the supervisor stops
//     its children and fails as a child of its parent, which applies its own rules.
//     At the root, Run returns an *[EscalationError] with the causes of all levels.
//     [Escalate] goes there directly.
//  5. nil, an error, a panic (also panic(nil)) and runtime.Goexit are told apart.
//     A child whose context is done has stopped, whatever it returns; a context
//     error of someone else's is a failure like any other. An error that harms who
//     reads it (a nil pointer in an error, one that wraps itself) is ErrUnreadable. An
//     error is read once, in its child's goroutine: nobody else waits for its methods.
//  6. Run returns when every child has stopped or was abandoned. A child that does
//     not stop in time is abandoned, and named with its path and its goroutines'
//     stacks in a *[StuckError]; it keeps no other from being stopped. When children
//     that hang have held up the others of their supervisor for 30 s, all of them are
//     asked at once. A child whose StopTimeout is [Unlimited] is waited for.
//  7. Children may be started and stopped while running ([Of], [Group]), in constant
//     time each, and are supervised like the others. Any child may be restarted by
//     hand, whatever its state ([Supervisor.Restart]).
//  8. [Supervisor.Report], [Supervisor.Subscribe] and [Supervisor.Counters] show what
//     is going on. They never wait for a child, nor make one wait.
//  9. Every child's goroutine, and those that it starts, carry the pprof label
//     actor=<path>, also those that context.AfterFunc starts when it is asked to stop. A
//     timer's goroutine has no labels: it sets them by pprof.SetGoroutineLabels(ctx).
//  10. A supervisor whose children are all done goes on until it is stopped, unless its
//     [AutoShutdown] says otherwise: then it ends by itself, in order.
//  11. context.Cause of a child's context tells why it is asked to stop: the cause of
//     Run's context, [ErrRemoved], [ErrRestarted], [ErrShutdown], what said
//     ErrTerminate, or an *EscalationError. Run returns it [WithCause].
//
// Each of them has a test in virtual time. Package supervisortest asserts in tests
// of trees that nothing is left behind.
//
// # Not guaranteed
//
// Go cannot end a goroutine: an abandoned child runs on, and is only counted and
// named. A panic in a goroutine that a child started itself ends the process: start
// a child instead. Nothing is kept across restarts: state that must survive an
// incarnation lives outside of it. The supervisor waits for backoff
// policies of the host's own: they must not block.
//
// # Compared with others
//
// oklog/run runs a flat list of actors until the first one returns, then
// interrupts all at once: no restarts, no order, no deadlines. thejerf/suture
// restarts, with one backoff for a whole supervisor and one-for-one only;
// it stops all services at once and has no readiness. Erlang/OTP has the strategies,
// restart types and intensity that are used here; it can kill a process that will
// not stop, and has no backoff. juju/worker/dependency orders by
// declared dependencies rather than by position, restarts dependents, and never
// escalates but for fatal errors.
package supervisor
