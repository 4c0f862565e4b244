// Package backend is a participant of an election in any store: all that is not a call to the
// store. A [Store] reads an election and commits changes of it; package onconsul has one, and
// package onzk another.
//
// An election in a store is three kinds of records:
//
//   - The state. Every change of the leadership writes it, and every order. Its version is the
//     condition of each change, so a change that arrives late or twice is refused.
//   - The leader's record, which goes with the leader's session.
//   - A record for each candidate, which goes with the candidate's session.
//
// The rules:
//
//  1. The leadership is taken only where there is no leader's record, in the state that was read,
//     by a candidate whose record is there.
//  2. A leader writes its lock-delay into the state. It takes it out when it gives the leadership
//     up. A leadership that was not given up is taken only when that time is over, counted from
//     when it was first seen free in that state.
//  3. A take by the candidate that leads already writes the state. So no earlier release of its own
//     takes effect any more.
//  4. Leaving deletes the candidate's record and gives the leadership up, in the state that was
//     read. So a take that is under way is refused, or the leaving is, and it reads again.
//  5. When the leadership is free the first in the queue takes it at once. Each other candidate
//     waits half a second for every candidate before it, because those may be dead.
//  6. While a hand-over is ordered, the others wait for its candidate, as long as the order says.
package backend
