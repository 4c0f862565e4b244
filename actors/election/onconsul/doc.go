// Package onconsul holds elections on Consul: one session and one lease, renewed by one
// goroutine, for all elections of a [Conn].
//
//	conn, err := onconsul.Connect(onconsul.Config{Client: client})
//	defer conn.Close()
//	e, err := election.New(conn, election.Config{Election: "db-master", Name: "n1"})
//	statuses, err := e.Nominate(ctx)
//
// An election has these keys, below election/<name>/ unless Config.Prefix says otherwise:
//
//	candidates/<id>    locked by the candidate's session: its name and priority. Whoever has none
//	                   cannot lead
//	joins/<session>    changed by each join of the session, and by leaving after a join of unknown
//	                   outcome; goes with the session
//	state/election     made by the first to join; its CreateIndex tells one election from a later
//	                   one of the same name
//	state/leader       locked by the leader's session: a copy of its candidacy. Its CreateIndex is
//	                   the fencing token
//	state/term         who led last, and its lock-delay; written by whoever takes the leadership
//	                   or gives it up, at the version that it has seen
//	state/handover     who is to lead next, for how long the others hold back
//	state/ended        ended for everyone; or, until nobody leads, being deleted
//	state/order        changed by a candidate that came before others that were there already, by
//	                   its priority
//
// Each election that is watched costs one long poll, of state/ only: who leaves, or joins behind
// all others, wakes nobody. Consul takes 200 connections from one address by default, so a
// connection takes part in 150 elections at most unless [Config.MaxElections] says otherwise; with
// Consul's limit raised, 1,000 elections over one session are no trouble. The list of candidates is
// read once when joining and, when the leadership is free, by those who may be next and did not
// know it before.
//
// # What is guaranteed
//
//  1. The leader's key is taken only where there is none, in one transaction with a check of the
//     candidate's own record as it was when it joined and of the term that it has seen: a request
//     that arrives late, after the candidate left or made way or after somebody else led, is
//     refused by Consul.
//  2. The fencing token rises with each leader, and stays the same while one leads whatever
//     strangers write to the key: it is the key's CreateIndex, which is the ModifyIndex with which
//     it was taken as well. A transaction with check-index of the leader's key at the token (see
//     [Conn.LeaderKey]) is refused once another leads.
//  3. A leadership that is given up is free at once: keys are deleted, never left to a lock-delay.
//     After a crash it takes the TTL of the health check, and the lock-delay: 16.5 s by default
//     (30 s without a check, when the session lives for two TTLs), and the lock-delay alone when
//     somebody ended the session. See [Config.TakeOver].
//  4. No write takes effect twice, however late a copy of it arrives: each carries a condition that
//     it makes false itself. The one exception is the making of an election: a late copy makes one
//     with nobody in it, open to all.
//  5. A Consul that restores a snapshot forgets its lock-delays. Candidates keep to that of the
//     last leader by themselves if that one did not give the leadership up and the snapshot knows
//     of it. So a candidate that comes after everybody was lost waits for the lock-delay once more.
//     A Delete waits for it likewise: it takes the term away.
//  6. Only Consul's own word that it does not know a session ends it. A Consul that is slow, silent
//     or without a leader costs nothing while the lease holds, and neither does a transport of the
//     host's that panics. The one that a connection gives up itself is that of a leader or
//     candidate which has stopped and for a lease may not write that, nor lead again, where it
//     leads no other election: it would keep its place for as long as its process lives.
//
// # What is not
//
// A session that ends while its leader cannot hear of it, with its check or by an operator, leaves
// that leader its lease. A lock-delay shorter than that does not cover it, so with one there is no
// check, and nobody may end sessions before their time. Candidates that crash stay in the
// list until their session has expired; when one of them would be next, the one after it leads half
// a second later, and behind eight of them whoever is quickest does, whatever its priority.
// A Consul that lost its data begins its tokens anew.
//
// A Consul server that is started anew begins the lock-delays in its log anew, and refuses each
// lock of their keys, whoever has had them since. So for a lock-delay after that a leadership which
// is given up in good order is not free at once, if an earlier leader had been lost. Nor is the
// record of a candidate free whose join was not heard of before its session was over.
package onconsul
