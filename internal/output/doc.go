//go:build unix

// Package output copies what commands write to where their operator looks for it: with the item's
// id before each line, to a file for each item, or to the journal.
//
// The copying is done in the guard process. It outlives a killed coordd, so that a command that is
// stopped can still write, and it never waits for this package.
//
// What holds:
//
//  1. Begin, Started and Ended of a Run, and New, never wait for whoever takes the output: not for
//     a blocked standard output, a full or a hanging disk, or a journal that stands still.
//  2. What a command has written before Ended is copied, also when a process that nobody could
//     trace holds its pipes open. What such a process writes later is not.
//  3. A command whose output nobody takes waits in its own write, as with a pipe of its own. So
//     memory is bounded: 64 KiB for each sink at work, and the beginning of a line for each stream.
//  4. A line is written whole. One of more than MaxLine bytes is cut into pieces, but in a file. A
//     last line without a line break gets one.
//  5. What cannot be written (the reader is gone, the disk is full) is dropped, counted and named:
//     in its place when writing works again, and to the owner at once. The command goes on.
//  6. With a rate no item has more lines written than Config.Rate a second and a burst of ten
//     seconds' worth, however often its command starts anew. The rest is counted, and said in one
//     line every ten seconds and at the command's end.
//  7. Close leaves no goroutine, unless a write is blocked in the kernel: that one ends with the
//     process.
//
// What does not hold:
//
//   - What is in the pipes when the guard process is killed is lost. Its commands are killed then,
//     too.
//   - Of more than maxLingering commands that have ended with nobody to take what they wrote last,
//     the oldest one's rest is dropped and counted.
//   - The order of lines between a command's two streams is not kept.
package output
