// Package devconsul is an embedded server that speaks Consul's HTTP API: sessions, locks, the
// key/value store, transactions, blocking queries, and as much of the agent and the catalog as
// coordd, its users' checks and the consul command need for these.
//
// What holds:
//
//  1. One write is one log entry. Entries are applied one at a time, in the order of their index;
//     a transaction is applied whole or not at all.
//  2. The index only rises, except by Reset. Restore brings back old contents with their old
//     ModifyIndex, and the next write still gets an index above every earlier one: this is what
//     raft does when it restores a snapshot.
//  3. A session never ends before its TTL; it ends at twice its TTL, counted from its creation, its
//     last renewal or the last change of leader, whichever was latest. Ending it frees or deletes
//     its keys, and lock-delay applies to them; a release or a delete of the key by a client starts
//     no lock-delay.
//  4. A blocking query of keys or sessions wakes for what wakes it in Consul, and for nothing else:
//     they are kept in radix trees of the same kind, so a watch of a prefix without keys is woken
//     by its neighbours. Queries of the catalog may wake more often than Consul's.
//  5. The server keeps no goroutine of its own. A request made through RoundTripper runs on the
//     caller's goroutine and ends when its context does; time is measured with package time only,
//     so all of it runs in a testing/synctest bubble.
//  6. There may be several nodes, each with an agent of its own ([Server.AddAgent]): its services,
//     checks and sessions are of its node. One that is killed is taken for failed after a while, as
//     by gossip, and the sessions that are bound to its serfHealth end.
//  7. Close ends every timer and every blocking query.
//
// Status codes, headers, texts of errors and limits are those of Consul 1.22.7, read from its
// source and compared with a running one. Where a text names a Go type of Consul's, ours names
// another.
//
// What is not here: data on disk, more than one server, ACLs, namespaces and partitions, metadata
// of nodes, writing to the catalog other than by agents, the lists /v1/catalog/service and
// /v1/health/state (/v1/health/service tells more), transactions of anything but keys, checks other
// than TTL checks, Connect, prepared queries, events, peering, DNS, filter expressions and an
// agent's statistics. It is for development and tests; nothing survives the process.
package devconsul
