// Package leader has the actors that run while this member leads: the watchers of members, acks,
// workload and control, and the assigner.
//
// The watchers turn Consul's prefixes into the states that the assigner plans from. Each stamps its
// state with the term in which it was read: what an earlier leadership had read is out of date. The
// assigner's decisions are draft and brake, over its assignment_cache; what it makes sure of before
// is absence; what it writes are orders.
package leader
