//go:build unix

// Package output copies what commands write to where their operator looks for it: with the item's
// id before each line, or to a file for each item. The copying is done in the guard process, which
// outlives a killed coordd and never waits for this package.
//
// What holds:
//
//  1. Begin, Started and Ended of a Run never wait for what takes the output: not for a blocked
//     standard output, and not for a full or a hanging disk.
//  2. What a command has written before Ended is copied, also when another process holds its pipes
//     open. What such a process writes later is not.
//  3. A command whose output nobody takes waits in its own write, as with a pipe of its own. When it
//     has ended, its rest is dropped after 10 s.
//  4. A line is written whole. One of more than MaxLine bytes is cut into pieces, but in a file. A
//     last line without a line break gets one.
//  5. What cannot be written is dropped, counted and told to the owner. The command goes on.
//
// What is in the pipes when the guard process is killed is lost. The order of lines between a
// command's two streams is not kept.
package output
