// Package asynclog writes logs without making anybody wait for them.
//
// Standard error may be a pipe that nobody reads, and a host's slog.Handler may wait for a network.
// An actor that waited for either would keep its lease and do nothing, or work on beyond its lease.
//
// Guarantees:
//
//  1. Logging never waits for a write: neither for the handler's Handle, nor for the writer.
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
// Not guaranteed: that what was logged is written before a crash. The handler's Enabled, WithAttrs
// and WithGroup are called by the logger's caller: they must not block. The handler looks later at
// what the attributes of a record point to: it must not change after the call.
package asynclog
