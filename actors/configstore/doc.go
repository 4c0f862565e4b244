// Package configstore keeps a service's configuration in Consul, under
// service/<service>/config_data/<key>, with a cache that one watch keeps coherent and one queue
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
//     applied twice. Each write changes a marker key in its own transaction, so what became of it
//     can always be told.
//  2. The writes of one store are applied in the order in which they were taken in.
//  3. A store reads its own writes: once a write was acknowledged no read here shows what was
//     before it. All keys of one transaction appear together in
//     [Store.List] and [Store.Snapshot].
//  4. A missing key is [ErrNotFound]; an empty value is a value.
//  5. Reads answer from the cache while it is fresh (Config.MaxAge) and ask Consul otherwise. What
//     another writer has changed is seen as soon as the watch brings it.
//  6. [Store.Put] and [Store.Delete] replace whatever Consul holds when they are applied at once. A
//     write that had to wait, for Consul or through a crash, is applied only if its keys are as
//     they were when it was taken in. Otherwise it is a conflict. A caller who still waits gets an
//     error. For any other write there is a log line, [Queue].Conflicts, and the file "conflicts"
//     in the log's directory with the value; the write stays in the log until that file has it. No
//     request, however late it arrives, replaces what others wrote meanwhile. A key that was
//     missing and is missing again counts as unchanged. A write that waited behind an earlier write
//     of this store to the same key is based on what that write makes.
//  7. With Config.LogDir a write is on the disk before it is sent, and survives a crash and an
//     outage of Consul. It is replayed in order, once, under rule 6. Without, a crash loses what
//     was not acknowledged. A write that the disk refused ([ErrLog]) is never applied, unless that
//     is said to be possible ([ErrUncertain]). A directory that is removed while it runs is made
//     anew with what waits at the next write, when it stops, and when another process writes here.
//  8. Queue and log are bounded: [ErrFull]. No call outlasts its context, or the store
//     ([ErrStopped]). A write that cannot be decided holds up only those behind it, and only in
//     three cases: Consul does not answer; Consul denies the marker; the log's disk does not accept
//     the record of a refusal. A write in the log whose caller has gone, and which is denied though
//     the marker is not, is tried again for [DeniedLimit] and holds up those behind it meanwhile
//     ([Queue].Denied). If it is granted by then, it is applied. Otherwise it is refused, and
//     reported and kept as under rule 6. The limit counts for all of them together, and for all
//     processes that use the log one after the other: a write that is denied later, and less than
//     DeniedLimit after another denial, is refused at once. What was applied holds up nobody,
//     though its keys may no longer be read.
//  9. Keys and values have the layout of the system before this one; nothing is added below
//     config_data/ but the key root, by the first store that ever starts, and again when somebody
//     has deleted it. That write is not logged.
//
// # What is not
//
// Writes of strangers (the system before this one, `consul kv put`) take part in rules 3 to 6, but
// not in 1: nothing keeps a late request of theirs from arriving. A reader that looks at two keys
// by two calls may see a transaction in between; [Store.List] and [Store.Snapshot] do not. A store
// that has never reached Consul since it started takes no write, not even into the log: it cannot
// know what the write is based on. Consul restored from a snapshot has forgotten writes that were
// acknowledged. Where the marker goes while a write waits for its answer, nobody can tell whether
// that try was applied. A stranger, or a restore of Consul, may delete or replace the marker. So
// may another process of the same Config.Owner that takes over and stops. Without Config.Owner and
// without a log it goes when its process was suspended for a month (of [CommandOwner]: a day). A
// write that makes a key is not tried again then: [ErrUnreachable], never success. Nor is one that
// is based on such a write. Any other is, because its keys refuse it if it was applied. If they do,
// a write with a condition is [ErrUnreachable], and one without is a success if the keys are as it
// makes them. A write in the log whose caller has gone is reported and kept then, as under rule 6:
// compare it with what Consul has. All this holds for a request that arrives once. If a proxy sends
// a request twice, and others delete both the marker and the key that the first copy made before
// the second copy arrives, then the write is applied again: the refusal of the second copy looks
// like that of a write that was never applied. A write that was denied stays so, unless the token
// may not write the marker either and is granted both while a copy of it is under way.
//
// Each file is one actor or one of its decisions: watcher; cache_updater with snapshot; write_queue
// with job_queue, record and refusals; consul_writer with marker, running, already_applied, denied
// and sweep; log_opener; pulse; initialiser. tree.go wires the actors, store.go has the calls.
package configstore
