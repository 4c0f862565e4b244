// Package realconsul runs real Consul servers for tests: one, or a cluster of three, on loopback,
// and client agents beside them.
//
// What holds:
//
//   - A test gets a server that has a leader, answers consistent reads and knows its own node, so
//     that sessions can be created, or it fails. It never skips: when the binary is missing it says
//     how to build it.
//   - A server keeps its data directory and its ports when it is stopped, killed or frozen and
//     comes back. Nobody else gets the ports meanwhile: neither another test process that uses this
//     package nor, since they lie below the range the kernel hands out, an outgoing connection.
//   - No server outlives the test process, however that ends: the kernel kills it (Linux only),
//     frozen or not.
//   - When a test fails, the end of every server's log is in the test's log.
//   - After clean-up no connection, goroutine or file is left.
//
// The settings are those of a production server with the raft multiplier at 1: data on disk,
// sessions of 10 s at least, 200 connections for each client address. It is not `consul agent
// -dev`, which forgets everything when it stops.
//
// What is not promised: several servers on one machine share its disk and its clock, so nothing
// here shows what a slow disk or a clock that jumps does; and gossip between servers is never cut,
// only what they do over RPC: see Cluster.Part.
package realconsul
