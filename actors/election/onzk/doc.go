// Package onzk holds elections (package election) on ZooKeeper, over one connection of
// github.com/go-zookeeper/zk that any number of elections and the caller's own work share.
//
//	conn, err := onzk.Connect(onzk.Config{Servers: []string{"zk1:2181", "zk2:2181", "zk3:2181"}})
//	defer conn.Close()
//	e, err := election.New(conn, election.Config{Election: "db-master", Name: "n1"})
//
// With Config.Digest all nodes are made for that user alone, and with Config.TLS nobody listens.
// All candidates, followers and operators of an election need the same credentials then. The
// caller's own work may use [Conn.ZK].
//
// # What holds beside the guarantees of package election
//
//  1. A leader steps down before ZooKeeper can expire its session, whatever server it is connected
//     to: the lease counts only contact that the ensemble's leader is known to have heard of, and
//     from its sending (see lease).
//  2. A disconnect is no loss. The session is lost when ZooKeeper says so. While there is no
//     connection candidates are told nothing but that the lease is over.
//  3. The fencing token is the creation zxid of the node "leader", which each leader creates anew:
//     it rises from leader to leader over the whole life of the ensemble, also for elections that
//     were deleted and made again.
//  4. A request that arrives late does nothing: each is a transaction that names the election, by a
//     node whose name is never used again, and the version of its state.
//  5. A create whose reply was lost is found again, or removed.
//
// # Nodes
//
//	/coordd/election/<name>                 the state: the last leader's lock-delay, an order to hand
//	                                        over, the end
//	/coordd/election/<name>/_e_<id>         the identity of the election
//	/coordd/election/<name>/_c_<id>-p<priority>-n<sequence>
//	                                        a candidate: ephemeral, sequential
//	/coordd/election/<name>/leader          who leads: ephemeral. Its creation zxid is the token
//
// Where the election's node is something else's, as by a wrong root, candidates and orders are
// refused with election.ErrInvalid, and nothing is written.
//
// # What it costs
//
// A connection proves its lease with a transaction that changes nothing, every sixth of its
// session's timeout. A participant has two watches: on the election's node and on "leader". A
// candidate lists the queue once when it joins, and when the leadership is free: the first one
// leads at once, and each other one waits half a second for every candidate before it.
//
// After a leader that did not give the leadership up, the next one, and a Delete, waits for that
// leader's Config.LockDelay: the session's timeout unless it says otherwise. A session that expires
// by itself needs no such wait, for the lease is over before. But a session can be ended early, with
// its password or by JMX, and nobody can tell the two apart afterwards. So a crash costs twice the
// timeout and a tick by default. Where nobody ends sessions by hand, a negative LockDelay leaves it
// at the timeout and a tick.
//
// # What is not
//
// The client library is used as it is. A ZooKeeper that has lost its data, or was restored from
// before, refuses clients that have seen more: their processes have to be started anew. Credentials
// that a server refuses are sent again every few seconds. A dialer of the host's that panics ends
// the process, and one that hangs holds its connection up. Each participation leaves two small
// channels in the client until its nodes change.
//
// A candidate whose rights are taken away later keeps its place, or its leadership, until it has
// them back or its process ends. The others pass it by when it cannot lead. A node "leader" that
// belongs to no session, and that somebody made by hand, keeps everybody from leading.
package onzk
