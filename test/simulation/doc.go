// Package simulation runs whole clusters on the embedded Consul in virtual time, with
// faults drawn from a seed, writes down what happens and has internal/history judge it.
//
// A run is: members and a workload; two minutes or so of faults; calm; and, when the bound for
// everything to be well again has passed, a clean stop. It fails when the history breaks I1 to I4,
// when a member gives up by itself, or when anything is left over at the end: sessions, keys,
// blocking queries, goroutines.
//
// What is drawn from the seed: the shape of the cluster, the episodes (see plan_test.go), and for
// each request of each member, by its number, what becomes of it. What is not: the order in which
// goroutines of the same virtual moment run, which Go decides. So a replay is the same faults at
// the same requests and moments, and nearly always the same story; where it is not, run it a few
// times (-sim.times).
//
// A frozen member stands still for the world: its requests neither leave nor come back, and its
// work does nothing. Its actors' timers go on inside, for a bubble cannot stop a goroutine; what
// they would have sent leaves when it thaws, after its callers have given up on it. Single actors,
// or all of a suspended host's, stand still where they reach out of their member: see
// still_test.go.
//
// One run in five has 13 to 30 members. Strangers aim values at each field of each kind of key. In
// the profile laden payloads are large and lines thin.
//
// The profile pairs plays two faults of docs/faults.md at a time, and draws settings more freely:
// see pairs_test.go.
//
// The commands of a member that is killed outlive it where it has a guard: each takes its time, at
// most until the lease is over, and the guard hands over when all are gone: see orphans_test.go.
//
// Run it:
//
//	go test ./test/simulation                                a bounded number of seeds
//	make simulate MINUTES=10                                 as many as there is time for
//	make attack MINUTES=10                                   the same, of the profile pairs
//	go test ./test/simulation -run TestSeeds -sim.seed=7 -v  one seed again
package simulation
