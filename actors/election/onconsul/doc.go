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
//	state/election     the state: the last leader's lock-delay, an order to hand over, the end. Every
//	                   change of the leadership writes it, on the condition that it is as it was
//	                   read. Its CreateIndex tells one election from the next one of the name
//	state/leader       locked by the leader's session: a copy of its candidacy. Its CreateIndex is
//	                   the fencing token
//	candidates/<id>    locked by the candidate's session: its name and priority. Without one a
//	                   candidate cannot lead
//	sequence/<session> the sequence key of a session: each join moves it, so no join takes effect
//	                   twice. It goes with the session
//
// Each election that is watched costs one long poll, of state/ only: candidates that come and go
// wake nobody. Consul takes 200 connections from one address by default, so a connection takes part
// in 150 elections at most unless [Config.MaxElections] says otherwise. The queue is read once when
// joining, and when the leadership is free.
//
// # What is guaranteed
//
//  1. The leader's key is taken only where there is none, in one transaction with a check of the
//     candidate's own record and of the state that was read. A request that arrives late or twice
//     is refused by Consul. The one exception is the making of an election: a late copy makes one
//     with nobody in it, open to all.
//  2. The fencing token rises with each leader, and stays the same while one leads: it is the key's
//     CreateIndex, which is the ModifyIndex with which it was taken as well. A transaction with
//     check-index of the leader's key at the token (see [Conn.LeaderKey]) is refused once another
//     leads.
//  3. A leadership that is given up is free at once: keys are deleted, never left to a lock-delay.
//     After a crash it takes the TTL of the health check, and the lock-delay: 16.5 s by default
//     (30 s without a check, when the session lives for two TTLs), and the lock-delay alone when
//     somebody ended the session. See [Config.TakeOver].
//  4. A Consul that restores a snapshot forgets its lock-delays. Candidates keep to that of the
//     last leader by themselves, and so does a Delete.
//  5. Only Consul's own word that it does not know a session ends it. A Consul that is slow, silent
//     or without a leader costs nothing while the lease holds.
//
// # What is not
//
// A lock-delay shorter than the lease does not cover a session that ends early. With one there is
// no check, and nobody may end sessions before their time. Candidates that crash stay in the list
// until their session has expired. Each candidate behind them waits half a second longer, four
// seconds at most. A Consul that lost its data begins its tokens anew.
//
// A Consul server that is started anew begins the lock-delays in its log anew. So for a lock-delay
// after that a leadership that is given up in good order may not be free at once.
//
// A candidate whose rights are taken away later keeps its place, or its leadership, until it has
// them back or its process ends. The others pass it by when it cannot lead.
package onconsul
