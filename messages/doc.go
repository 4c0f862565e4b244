// Package messages holds the means by which actors speak to one another: cells, mailboxes and
// tables.
//
// A [State] is what an actor publishes, a [Mailbox] is what it is asked:
//
//	plan := messages.NewState(Plan{})
//	plan.Set(next)                     // never blocks
//	cursor := plan.Subscribe()
//	newest, err := cursor.Next(ctx)    // the current value first, then newer ones
//	answer, err := mailbox.Call(ctx, request)
//
// Guarantees:
//
//  1. [State.Set] never blocks, however many read the cell and however slow they are.
//  2. A subscriber sees the current value first, then newer ones only, and always ends up with the
//     newest. It may miss values in between.
//  3. A cell outlives its writer and its readers: a restarted actor that subscribes again starts
//     with the current value, so nothing that a crashed incarnation had seen is lost with it.
//  4. Every message is an immutable snapshot. Tables of items are sorted by id and cannot be
//     written to once they are built.
//  5. A [Mailbox] request gets exactly one answer: the receiver's, or an error that says why there
//     is none (the caller's context ended, the receiver ended while it had the request in hand, the
//     receiver waits for this very call).
//  6. Where a context has ended there is no chance in it: an answer that was given counts, and a
//     value that [Reader.Wait] looks for; nothing new is begun, and [Cursor.Next] takes nothing.
//
// Not guaranteed: that a reader sees every value, that two cells change
// together, and any order between cells. What must be seen together is one
// message. Receivers compute differences themselves, from the snapshots. Nor is it noticed that two
// receivers call each other, each for a request of somebody else: none waits for its own call, and
// they wait until one of the contexts ends.
//
// The package imports nothing of ours and starts no goroutine.
package messages
