// Package onzk holds elections (package election) on ZooKeeper, over one connection of
// github.com/go-zookeeper/zk that any number of elections and the caller's own work share.
//
//	conn, err := onzk.Connect(onzk.Config{Servers: []string{"zk1:2181", "zk2:2181", "zk3:2181"}})
//	defer conn.Close()
//	e, err := election.New(conn, election.Config{Election: "db-master", Name: "n1"})
//
// With Config.Digest all nodes are made for that user alone, and with Config.TLS nobody listens.
// All candidates, followers and operators of an election need the same credentials then. An
// election that was made without them stays open to the world.
//
// A program with a *zk.Conn of its own has it made with a [Dialer] and passes both to [New].
//
// # What holds beside the guarantees of package election
//
//  1. A leader steps down before ZooKeeper can expire its session, whatever server it is connected
//     to: the lease counts only contact that the ensemble's leader is known to have heard of, and
//     from its sending (see lease).
//  2. A disconnect is no loss. The session is lost when ZooKeeper says so, and candidates are told
//     within a round trip of the next connection. While there is none they are told nothing but
//     that the lease is over; so are followers, who know of no leader then. A ZooKeeper that has
//     lost its data, or was restored from before, never says so: then candidates are told when
//     their lease has been over for a session's timeout. Nothing of an old session is ever taken
//     for a new one's: every node's owner is compared.
//  3. The fencing token is the creation zxid of the node "leader", which each leader creates anew:
//     it rises from leader to leader over the whole life of the ensemble, also for elections that
//     were deleted and made again.
//  4. A request that arrives late does nothing: to take the leadership, to give it up and to hand
//     it over are transactions that fail once somebody else has led, or the candidate's node has
//     gone: so also in another election of the same name.
//  5. A create whose reply was lost is found again, or removed: a stray node would hold up everyone
//     behind it.
//  6. Nobody but the next in line does anything when a leader goes. Each candidate knows its place
//     by watching the node before its own; nobody lists the queue unless its predecessor goes.
//
// # Nodes
//
//	/coordd/election/<name>                 what has become of it: open, ended, being deleted
//	/coordd/election/<name>/_c_<guid>-p<priority>-n<sequence>
//	                                        a candidate: ephemeral, sequential, protected by its
//	                                        guid
//	/coordd/election/<name>/_e_<id>         its identity: every order names it, so that a late one
//	                                        misses the next election of the name. Where the node
//	                                        was made by hand the first join or order makes it
//	/coordd/election/<name>/_p_<random>     for a moment, when a stranger has removed the identity:
//	                                        ephemeral. It says in which election that is made again
//	/coordd/election/<name>/leader          who leads: ephemeral. Its creation zxid is the token
//	/coordd/election/<name>/term            who led last, and its lock-delay; empty once that was
//	                                        given up in good order. Its version is the guard
//	/coordd/election/<name>/yield           whom the leadership is kept free for
//
// Where the election's node is something else's, as by a wrong root, whoever stands or gives an
// order is refused with election.ErrInvalid, and nothing is written: it has data or nodes below it,
// and no record of an election, no identity, no term and no candidate. An empty node that somebody
// made is taken.
//
// The leadership is a node of its own and not the first place in the queue, because with priorities
// and hand-overs the first in the queue is not always the one to lead, and because a candidate's
// creation zxid is as old as its candidacy: tokens would fall.
//
// # What it costs
//
// A connection proves its lease with a transaction that changes nothing, every sixth of its
// session's timeout. A candidate has four watches: on its own node, its predecessor's, "leader" and
// the election's. The last two are what tells everybody who leads and when it is over; a connection
// has each of them once for all its candidates. So a change of leader costs each connection two
// notices and two small reads, and the queue itself costs one listing by the one candidate whose
// predecessor went.
//
// After a leader that did not give the leadership up, the next one, and a Delete, waits for that
// leader's Config.LockDelay: the session's timeout unless it says otherwise. A session that expires
// by itself needs no such wait, for the lease is over before. But a session can be ended early, by
// whoever has its password or by JMX, and nobody can tell the two apart afterwards; its leader, if
// it cannot hear of that at the moment, goes on until its lease is over. So a crash costs twice the
// timeout and a tick by default; where nobody ends sessions by hand, a LockDelay below the timeout
// makes it that much quicker, and a negative one leaves it at the timeout and a tick.
//
// # What is not
//
// Whoever is the next to lead and is denied that, as its rights to the nodes were taken away, makes
// way after a session's timeout: it gives its place up and joins again, behind the others whatever
// its priority, which counts again in its next place after it has led, and in its next candidacy.
// So does a leader whose lease was over, and that is denied to lead again. Whoever is denied to
// remove its own nodes holds the others up for as long as its session lives. A connection gives its
// session up for that, after a session's timeout of denials, unless somebody leads over it who may.
// One that its caller owns goes on.
//
// A node with a time to live (extendedTypesEnabled) that a stranger makes in the place of "leader"
// or of a candidate counts as a session's: everybody waits until it is deleted, and ZooKeeper does
// that when its time is over. Its owner, 0xff and the time, may be the session of a server with the
// id 255 as well, in the first 4.7 hours of that machine. A leader's node must never be removed for
// that, so nobody removes either. A lasting node or a container there is in nobody's way, also if a
// stranger keeps it to himself; unless it has children then, for those may be an election's. Where
// he keeps the election's node or "term" to himself nobody leads until he gives them back.
package onzk
