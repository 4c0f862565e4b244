// Package actors is coordd itself: one member of a cluster that shares a
// workload out, as a supervised tree of actors.
//
//	c, err := actors.New(actors.Config{Service: "demo", ID: "n1", Work: work})
//	if err != nil {
//		return err // all that is wrong with the settings
//	}
//	return c.Run(ctx) // work(ctx, item) runs for each item that this member owns
//
// Guarantees, given a [Work] function that returns when its context ends:
//
//  1. No item is worked on by two members at once. A member works on an item only
//     while Consul holds a key that says so, its own record is locked by its session and its
//     lease holds; it stops before the lease ends.
//  2. Fencing tokens of an item rise with every start of its work, and no
//     write of a leader that has been deposed is accepted by Consul.
//  3. Every item has an owner again within a bound after the faults end: session
//     end (the check's TTL; 2 x TTL without one), lock-delay, grace and soak at the most.
//  4. A session that is valid and can be renewed costs nobody leadership or work:
//     not Consul's elections, not its slowness, not failed polls.
//  5. An idle member holds three long polls and sends nothing else but its renewal, the read that
//     confirms it, and reports to its Consul agent; a leader holds four more.
//
// Not guaranteed: anything about work that ignores its context, unless it
// passes the fencing token on to what it writes to; hosts whose clocks run at
// rates that differ by more than the lease margin allows (a tenth of the TTL);
// items whose assignment keys other programs delete or write.
//
// The protocol that holds this stands in docs/design.md, section 5. The actors stand in
// internal/member, those of the leader in internal/leader, what they share in internal/actor.
// tree.go wires them; coordinator.go is the host's entry. What people see and order from outside is
// in package actors/operator.
package actors
