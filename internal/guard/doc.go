//go:build unix

// Package guard runs commands as child processes that never outlive the right to run them.
//
// A small guard process, the same binary started with another command, is the parent of all of
// them. Its owner tells it over pipes what to run and until when. The guard process then needs
// nothing from its owner, so the owner's death or freeze withholds nothing.
//
// What holds on Linux, with a cgroup (v2) for each command or, where there are none, with a process
// group and the adoption of orphans:
//
//  1. Exec returns when nothing of its command is left: not its process, not its group or cgroup,
//     and no process that left the group.
//  2. When the owner dies, every command gets SIGTERM, then SIGKILL after the stop timeout or shortly
//     before the lease ends. Then the guard process says the owner's Goodbye, and ends.
//  3. When the lease is not renewed, every command gets SIGTERM at the margin before its end, and
//     SIGKILL a quarter of the margin before it, whether the owner runs or not. The end is an
//     absolute time on two clocks; the one that says less is left counts.
//  4. Nothing starts without a lease, and no lease of another session prolongs anything. A start
//     delays no lease, no stop and no answer: those have a pipe of their own.
//  5. When the guard process dies or hangs, the owner kills what it left, and ends the Execs with
//     ErrLost when that is gone. What does not die for 45 s ends Run with ErrStuck.
//  6. When guard process and owner are killed together, the commands' own processes die at once,
//     by the kernel. The rest dies when the next owner of the LockFile takes the lock, by the
//     cgroup.
//  7. LockID names a lock only when nothing runs that another owner of the same file had started.
//  8. No end of a command, no goodbye and no lock waits for what reads the output.
//
// What does not hold:
//
//   - Without cgroups, 6 is about the commands' own processes alone: what those had started lives on.
//     So does a background process that cleared its environment, until any command of this guard
//     process ends: it is killed then.
//   - Nothing stops the commands of a guard process that is frozen while its owner is dead or frozen.
//   - A process that moves itself to another cgroup, that this user may not kill (set-user-ID) or
//     that the kernel does not let end is no more than waited for.
//   - Other systems than Linux have process groups only.
package guard
