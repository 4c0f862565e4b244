// Package store holds everything the coordinator knows about Consul: reads, watches, sessions,
// guarded transactions, what makes a key that Consul takes, and what each kind of failure means.
// Nothing above it speaks HTTP or looks at a status code. What coordd itself writes to Consul is in
// package protocol: this package knows none of those keys and values.
//
// # What is guaranteed
//
//  1. Every call takes a context and has a deadline of its own as well: a
//     connection that was accepted and never answered cannot hold a caller.
//  2. Every error matches exactly one of [ErrSessionGone], [ErrRefused],
//     [ErrDenied], [ErrUnreachable], [ErrInvalid], [ErrNotFound] and
//     [ErrNotSent]. When the caller's own context ended, the error matches
//     its ctx.Err() too.
//  3. [OutcomeUnknown] is false only for a write that was certainly not
//     applied and certainly will not be, unless the request is delivered a second time: what
//     must not be done twice carries a condition that its own success makes false.
//  4. An answer that is cut short, is not Consul's, or was filtered by an
//     access rule is an error, never data: a reader sees all of a prefix or
//     nothing of it.
//  5. A prefix that is read, watched or deleted ends in "/", so that m1 never
//     meets what belongs to m10.
//  6. A [Writer] puts the guard first in every transaction, keeps
//     the operations of a unit together and the transactions of a lane in
//     order, and sends nothing more once the guard was refused or the outcome
//     of a transaction is unknown. Each of its transactions takes effect once at most, however
//     often it is delivered, and one that was refused never.
//  7. A [Watch] follows the rules for X-Consul-Index: 0 counts as 1, and an
//     index that went back starts the watch anew with a plain read.
//  8. Each call has a deadline. It grows with what the call carries, as on a line of 1 Mbit/s: a
//     large answer that keeps coming is read to its end (with a client of [NewClient]), a
//     stalled one is given up after the call's own time.
//
// # What is not
//
// The package does not decide what an error means for ownership: no call ends
// a lease except a renewal that answers [ErrSessionGone]. It does not wake a
// watch when a lock-delay ends, because Consul does not: poll on a timer. It
// does not fence: ModifyIndex at acquisition is a fence, LockIndex is not,
// because any plain write to a held key resets it.
package store
