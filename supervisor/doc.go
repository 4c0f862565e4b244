// Package supervisor keeps the goroutines of a service running, and stops them in order:
//
//	s, err := supervisor.New("host", supervisor.Tree{Children: []supervisor.Child{
//		{Name: "store", Run: keep, Gate: true},
//		{Name: "poller", Run: poll}, // func(context.Context) error; restarted when it ends
//	}})
//	...
//	err = s.Run(ctx) // until ctx ends, or poll fails too often
//
// A [Child] is a function, or a [Tree] of children. [New] checks the tree, and [Supervisor.Run]
// runs it. The package depends on nothing else of this module but its logging.
//
// # Guarantees
//
//  1. Children start in order. After a gated child, the next starts when it has called [Ready].
//     They stop in reverse, one at a time (or all at once: Tree.StopTogether), each with its own
//     deadline.
//  2. No two incarnations of a child overlap. One starts only after the goroutine of the one before
//     has ended. Where a child that hangs is to be restarted, its supervisor escalates.
//  3. A child that ended is restarted as its Restart type says (Permanent, Transient, Temporary),
//     after its own backoff, with the siblings that the Strategy names (OneForOne, OneForAll,
//     RestForOne). A healthy run resets the backoff.
//  4. More than MaxRestarts restarts of a child, or of a group that restarts together, within
//     Period of running escalate. The supervisor then stops its children and fails as a child of
//     its parent, which applies its own rules. At the root, Run returns an *[EscalationError] with
//     the causes of all levels. An error of [Escalate] goes to the root directly.
//  5. nil, an error, a panic (also panic(nil)) and runtime.Goexit are told apart. A child whose
//     context is done has stopped, whatever it returns. An error that panics when it is printed is
//     replaced by [ErrUnreadable].
//  6. Run returns when every child has stopped or was abandoned. A child that does not stop in time
//     is abandoned, and named with its path and the stacks of its goroutines in a *[StuckError].
//     Children that hang keep no other from being stopped.
//  7. Children may be started and stopped while the tree runs ([Of], [Group]), in constant time
//     each, and are supervised like the others.
//  8. [Supervisor.Report], [Supervisor.Subscribe] and [Supervisor.Counters] never wait for a child,
//     and never make one wait.
//  9. The goroutine of a child, and those that it starts, carry the pprof label actor=<path>.
//  10. A supervisor whose children are all done goes on until it is stopped.
//
// Each has a test in virtual time. Package supervisortest asserts in tests of trees that nothing is
// left behind.
//
// # Not guaranteed
//
// Go cannot end a goroutine: an abandoned child runs on, and is counted and named. A panic in a
// goroutine that a child started itself ends the process: start a child instead. An error that
// wraps itself, or whose methods block, hangs its child. A backoff policy is called by the
// supervisor: if it blocks or panics, so does the supervisor. Nothing is kept across restarts:
// state that must survive an incarnation lives outside of it.
//
// # Compared with others
//
// oklog/run runs a flat list of actors until the first one returns, then interrupts all at once: no
// restarts, no order, no deadlines. thejerf/suture restarts, with one backoff for a whole
// supervisor and one-for-one only. It stops all services at once and has no readiness. Erlang/OTP
// has the strategies, restart types and intensity that are used here. It can kill a process that
// will not stop, and has no backoff. juju/worker/dependency orders by declared dependencies, and
// escalates fatal errors only.
package supervisor
