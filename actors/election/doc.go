// Package election holds elections: for any resource, many at once, over one
// connection to Consul (package onconsul) or ZooKeeper (package onzk).
//
//	conn, err := onconsul.Connect(onconsul.Config{Client: client})
//	defer conn.Close()
//	e, err := election.New(conn, election.Config{Election: "db-master", Name: "n1"})
//	statuses, err := e.Nominate(ctx)
//	for s := range statuses {
//		// s.Role, s.Leader, s.Token, s.Until …
//	}
//	// the election is over for this candidate; e.Err() tells why
//
// # What is guaranteed
//
//  1. At every instant at most one candidate leads: each leads only while the store holds a record
//     that says so, bound to its session, and while its own lease holds. The lease counts from the
//     *sending* of the last answered request, by the monotonic and the wall clock, whichever says
//     that more time has passed; a leader steps down a margin before it ends.
//  2. Fencing tokens rise from one leader to the next. A leader that stepped down because its lease
//     ran out, and finds that its session still lives, may lead again with the token that it had.
//  3. Nominate, Follow, Resign and Drained never block. Nothing that a reader of the channel does
//     or leaves undone holds up the election.
//  4. Every message is a whole Status; What says what is new in it. They come in the order in which
//     things happened. The first one that is not Waiting is Initial or Over. Each change of role is
//     a message of its own; two messages that only tell of the leader, or only of the lease, may be
//     told as the newer one. A reader that is more than a few dozen messages behind loses the
//     oldest: the next message counts in Missed the changes of role that were among them.
//  5. The last message has the role Out and tells why: Resigned, Ended, Deleted or an error. There
//     is exactly one such message; then the channel is closed. A closed channel means that it is
//     over for this candidate, and it always gets closed: also when nobody reads.
//  6. A leader's record is given up only when its duties have ended: when the Lead function has
//     returned or, without one, when Drained or Resign was called. There are two exceptions without
//     a Lead function. If neither was called within Config.DrainTimeout after the end of Nominate's
//     context, the record is given up with a warning. If neither was called after the connection
//     was closed, the record is given up when the lease is over. The end of the session takes the
//     record away too, but not before the lease is over.
//  7. A store that is slow, silent or in an election of its own costs nobody anything while the
//     lease holds, and no error is taken for a loss: only the store's own word that the session is
//     gone.
//  8. Resign may be called at any moment and any number of times.
//  9. A panic of the store's package, of the host's Lead function or of this package ends the
//     participation with ErrBroken, and a connection whose own loop panics counts as closed. The
//     process goes on; a leader's duty is told to stop, and its record is given up when it has.
//
// # What is not
//
// Duties that go on after their context has ended overlap with the next leader's, unless the
// fencing token is passed on to what they write to and lower ones are refused there. An operator
// that deletes the leader's record takes the leadership with it: the leader stops when it sees
// that, which may be later than the next one begins. Leases need clocks that run at about the same
// rate. No order is kept between elections.
package election
