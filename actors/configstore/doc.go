// Package configstore keeps a service's configuration in Consul, under
// service/<service>/config_data/<key>, with a cache that one watch keeps coherent and one outbox
// through which all writes go. It is a supervised tree of its own, to be run beside the host's (see
// [Store.Child]), or as part of a member (actors.Config.Backend).
//
//	s, err := configstore.New(configstore.Config{Service: "demo", Client: client})
//	go s.Run(ctx)
//	index, err := s.Put(ctx, "limits/rate", []byte("50"))
//	entry, err := s.Get(ctx, "limits/rate") // from the cache while that is fresh
//	index, err = s.CompareAndSet(ctx, "limits/rate", []byte("60"), entry.Index)
//
// # What is guaranteed
//
//  1. A write that was acknowledged is in Consul, once. A reply that was lost, a request that
//     arrives late, a crash at any point: none of them makes a write count that was refused, or be
//     applied twice. The transaction of each write moves a sequence key under the name of the
//     write. The names in the key tell what became of it.
//  2. The writes of one store are applied in the order in which they were taken in.
//  3. A store reads its own writes: once a write was acknowledged, [Store.Get], [Store.List] and
//     [Store.Snapshot] show nothing that was before it. All keys of one transaction appear together
//     in [Store.List] and [Store.Snapshot].
//  4. A missing key is [ErrNotFound]; an empty value is a value.
//  5. Reads answer from the cache while it is fresh (Config.MaxAge) and shows the writes of this
//     store. Otherwise they ask Consul. What another writer has changed is seen as soon as the watch
//     brings it.
//  6. [Store.Put] and [Store.Delete] replace whatever Consul holds when they are applied at once. A
//     write that had to wait, for Consul or through a crash, is applied only if its keys are as
//     they were when it was taken in. Otherwise it is a conflict. A caller who still waits gets an
//     error. For any other write there is a log line, [Queue].Conflicts, and a line with the value
//     in the file "conflicts" in the log's directory. A key that was missing and is missing again
//     counts as unchanged. A write that waited behind an earlier write of this store to the same key
//     is based on what that write makes, if it is applied.
//  7. With Config.LogDir a write is on the disk before it is sent, and survives a crash and an
//     outage of Consul. It is replayed in order, once, under rule 6. Without, a crash loses what
//     was not acknowledged. A write that the disk refused ([ErrLog]) is never applied, unless that
//     is said to be possible ([ErrUncertain]).
//  8. A write of which nobody can tell whether it was applied is not sent again. Its caller gets
//     [ErrUnreachable]; without a caller it is kept in the file "conflicts", as under rule 6. So is
//     a write that Consul denies.
//  9. Queue and log are bounded: [ErrFull]. No call outlasts its context, or the store
//     ([ErrStopped]). A write holds up those behind it only while Consul does not answer, and while
//     the log's disk does not take what became of it.
//  10. Keys and values have the layout of the system before this one; nothing is added below
//     config_data/ but the key root, by a store that starts and finds none.
//
// # What is not
//
// Writes past this package (the system before this one, `consul kv put`) take part in rules 3 to 6,
// but not in 1: nothing keeps a late request of theirs from arriving. A reader that looks at two
// keys by two calls may see a transaction in between; [Store.List] and [Store.Snapshot] do not. A
// store that has never reached Consul since it started takes no write: it cannot know what the write
// is based on. A Consul that is restored from a snapshot has forgotten writes that were
// acknowledged. A sequence key keeps 128 names: where others have written more often while a write
// waited for its answer, or Consul was restored, nobody can tell whether it was applied. Sequence
// keys must not be deleted, nor the log's directory while it is in use. A write of a process that
// died without a log may still be applied a little later; it replaces nothing that others wrote.
//
// Each file is one actor or one of its decisions: watcher with snapshot; pulse; outbox with queue,
// record and conflicts; sender with outcome; initialiser. tree.go wires the actors, store.go has the
// calls.
package configstore
