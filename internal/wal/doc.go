// Package wal is a log on disk: records are appended, survive the process and the machine, and
// are all read again when the log is opened.
//
// # What is guaranteed
//
//  1. When [Log.Append] returns nil its records are on the disk (fsync), all of them; when it
//     returns an error none of them is found later, unless the error is [ErrUncertain].
//  2. [Open] returns every record of every Append that returned nil, in order, each as it was
//     (checked by CRC-32C), or it fails. It never returns a part, nor what was not appended.
//  3. What a crash cut off in the middle of an Append is removed by the next Open; the records that
//     came before it in that Append may stay. Damage before the last Append is [ErrDamaged], and
//     nothing is changed.
//  4. [Log.Rewrite] replaces all records by others, whole or not at all, whenever it is
//     interrupted.
//  5. One process has a directory open at a time; another one gets [ErrInUse].
//  6. The file never holds more than Options.MaxBytes of appended records: [ErrFull].
//
// # What is not
//
// A directory, or a file in it, that somebody removes or replaces while the log is open. A disk that
// lies about fsync, or damage that leaves a record's checksum right. Damage to what was
// appended last, and a file that somebody has cut short, look like a crash: what does not read is
// removed, and nothing behind it tells that it had been on the disk. Records written by
// [Log.Note] that are not synced survive the process, but not always the machine. After a failed fsync nothing is known
// of what the disk holds, so the log refuses everything from then on ([ErrBroken]) until it is
// rewritten or opened again.
//
// tidwall/wal was weighed: it has no checksums, and it refuses to open a log whose last record
// was cut off. bbolt has checksums for its two head pages only, and panics over a damaged page.
package wal
