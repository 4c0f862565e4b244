// Package member has the actors that every member runs: session_renewer with lease_enforcer,
// membership_keeper with predecessor, leader_tracker with leader_term, term_runner,
// assignment_watcher, and worker_manager with work_table. Package actors wires them.
package member
