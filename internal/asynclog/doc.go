// Package asynclog writes logs without making anybody wait for them.
//
// Standard error is a pipe that somebody else reads, or does not read; a host's slog.Handler may
// wait for a network. An actor that waited for either would keep its lease and do nothing, or work
// on beyond its lease.
//
// Guarantees:
//
//  1. Logging never waits: neither for the handler or writer, nor for its Enabled, WithAttrs and
//     WithGroup.
//  2. All that one queue takes is written in order, by one goroutine at a time.
//  3. A queue is bounded, in records and in bytes. What does not fit is dropped, the newest first.
//     The drops are counted, and the log says how many there were, at their place in the order,
//     once it is written again.
//  4. A handler that panics or ends its goroutine loses that record and nothing else.
//  5. Nothing has to be closed: the goroutine ends when everything is written. [Flush] waits for
//     that, for a limited time.
//
// Bytes are counted of text, also in groups and lists, and for each record of what With has added;
// what an error or a value of another type holds is not.
//
// Not guaranteed: that what was logged is written before a crash. What the attributes of a record
// point to is looked at later: it must not change after the call.
package asynclog
