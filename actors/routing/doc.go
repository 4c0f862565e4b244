// Package routing answers who owns an item: which member, at which address, with which fencing
// token.
//
//	router, err := routing.New(routing.Config{Service: "demo", Client: client})
//	go router.Run(ctx)
//	at, err := router.Locate(ctx, "device_1")
//	if routing.Retriable(err) {
//		at, err = router.Await(ctx, "device_1") // it is being moved
//	}
//
// Guarantees, under the conditions of package actors:
//
//  1. Never a wrong owner. A [Location] names the member that Consul's newest assignment key of the
//     item names, and only if that member may work on it by the protocol's own rules: its record
//     stands and is not leaving, the key says own, to the very session that the record is locked
//     by, or is inherited and no predecessor's lease can still be valid. Whatever is not that is
//     one of the errors: [ErrMoving], [ErrNoOwner], [ErrUnknownItem], [ErrNotReady].
//  2. An answer is as of a moment that is at most [Config].MaxAge ago, however Consul, the way
//     there or single long polls fail; when that cannot be held the answer is ErrNotReady. While
//     Consul can be reached the answer follows a change within the time of a notification and the
//     rest between two reads: 1 s at the most, 10 ms as a rule.
//  3. The grants that are answered are those of the work: max of the CreateIndexes of the
//     assignment key and of the member's record.
//  4. Locate of an owned item asks nobody and allocates nothing.
//  5. A router that nobody asks costs nothing. One in use holds a long poll for each member and two
//     more, which bring a member's share when that share has changed and nothing else, and never
//     only because time has passed; and two requests that bring the members' names every quarter of
//     MaxAge. A member's own router shares the long polls that the member has open. With 100
//     members and 10,000 items that is 1.3 requests and 3.6 KB a second, and 5 requests and 93 KB
//     for an item that moves.
//
// Not guaranteed: that the owner is alive and answers. A member that was killed is its items' owner
// until Consul ends its session, up to twice its TTL; nobody else is. Nor that the owner still is
// the owner when a request arrives there: no answer of this kind can promise that. The
// receiver of the request compares the grant with its own, and refuses. Nor that an item with an
// owner is located: a grant raises no ack, so a long poll that has died unnoticed hides a grant
// until the poll ends, 5 minutes at the most. The answer is ErrNoOwner until then.
//
// # How it is kept
//
// Consul says where items are in one key each, below assignments/<member>/. The whole tree must not
// be watched: it is read whole at each change, 18 MB for 100,000 items. So there is one long poll
// per member's share, and a change costs one share. Views of different members are then of
// different moments: for an instant an item shows at two members, or at none. Of two keys that are
// seen the one that was created later exists, for it could only be created when the other was gone.
// A key that has just gone and is not seen again yet is a move.
//
// Long polls cannot tell silence from a dead connection. Every release of an item and every
// registration also writes acks/<member> in the same transaction, and a session that ends takes
// members/<member> with it. So consistent reads of the indexes of members/ and acks/, every quarter
// of MaxAge, tell whether Consul answers, whether the watches of both keep up, and, by comparing
// each ack with the view of its member's share, whether that does. The table's age counts from such
// a pulse when all three have been seen to. A share that does not keep up is read again on its own;
// whatever else is wrong, a pulse that failed included, is mended by reading everything anew. An
// index of acks/ that went back is a Consul that was restored. Until the mend is done the table's
// age counts from before.
//
// A [Router] costs members + 2 of the 200 connections that Consul allows one client address by
// default; it warns from 150 members on.
package routing
