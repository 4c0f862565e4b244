// Package leader has the actors that run while this member leads: the watchers of members, acks,
// workload and control, and the assigner.
//
// The watchers turn Consul's prefixes into the states that the assigner plans from. Each stamps its
// state with the term in which it was read: what an earlier leadership had read is out of date.
//
// The assigner is a pure core in a thin shell. In each round it reads what has changed (round.go),
// takes all that it knows as inputs (inputs.go), makes a plan of them (plan.go), and writes the
// plan's orders (writer.go). What was applied is taken in by all that remembers.
//
//	inputs   one immutable picture of members, workload, orders, keys, absences, failures
//	board    the keys held against the members and the workload: what the planner is asked
//	plan     typed orders, when to plan again, what to say
//	order    one step of the protocol, and its transaction
//	writer   one loop, one rule for what fails
//
// What it remembers are values. Each has a method that takes what was seen and one that takes what
// was applied: known (the assignment keys), absences (who is missing, and for how long), failures
// (work that fails), refusals (orders that Consul refuses), brake, soak, eventLog, noted
// (what the next leader goes on with).
package leader
