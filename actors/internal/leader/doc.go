// Package leader has the actors that run while this member leads: the watchers of members, acks,
// workload and control, and the assigner.
//
// The watchers turn Consul's prefixes into the states that the assigner plans from. Each stamps its
// state with the term in which it was read: what an earlier leadership had read is out of date.
//
// The assigner is a pure core in a thin shell. In each round it reads what has changed (round.go),
// takes all that it knows as inputs (inputs.go), makes a plan of them (plan.go, quarantine.go,
// restart.go), and writes the plan's orders (writer.go). What was applied is taken in by what
// remembers it.
//
//	inputs   one picture of members, workload, orders, keys, absences, failures; it does not change
//	board    the keys held against the members and the workload: what the planner is asked
//	plan     typed orders, when to plan again, what to say
//	order    one step of the protocol, and its transaction
//	writer   one loop, one rule for what fails
//
// What it remembers are values. Some have a method that takes what was applied: known (the
// assignment keys), absences (who is missing, and for how long), failures (work that fails) and
// eventLog. The others are refusals (orders that Consul refuses), brake, soak and noted (what the
// next leader goes on with). What members do comes back with their acks: readRaised reads the keys
// of each that has raised its own.
package leader
