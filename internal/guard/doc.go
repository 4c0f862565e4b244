//go:build unix

// Package guard runs commands as child processes that never outlive the right to run them.
//
// A small guard process, the same binary started with another command, is the parent of all of them. Its owner tells it over a
// pipe what to run and until when, and asks nothing of it that the owner's death or freeze could prevent.
//
// What holds, on Linux:
//
//  1. Exec returns when nothing of its command is left: not its process, not its process group, and not
//     what left the group but kept its environment, or its parent.
//  2. When the owner dies, however it dies, every command gets SIGTERM, then SIGKILL after the stop
//     timeout or before the lease ends, whichever is earlier; then the guard process ends.
//  3. When the lease is not renewed, every command gets SIGTERM at its margin before the end, and SIGKILL a
//     quarter of the margin (at most 500 ms) before it. The owner need not run for that. The end is an absolute time on two clocks,
//     one that counts suspension and the wall clock; the one that says less is left counts.
//  4. Nothing starts without a lease.
//  5. When the guard process dies, its commands' own processes die with it, by the kernel. The owner kills
//     the rest, ends every running Exec with ErrLost once it is gone, and Run returns.
//  6. When the guard process hangs, the owner kills it: after 10 s without an answer, or when
//     the lease is about to end with work still running.
//  7. A clean end of Run leaves neither the guard process nor a zombie, and no goroutine.
//  8. What a dead guard and its dead owner left together is killed by the next guard process that starts
//     on the host, in the same process namespace, with the right to see it.
//
// What does not hold:
//
//   - Guard process and owner killed in the same instant (or the guard killed while the owner is
//     frozen): the commands' own processes die at once, by the kernel; what those had started lives until the next guard process
//     starts, see 8. In a container, or under systemd with its default KillMode, the whole lot is killed from outside.
//     The shell replaces itself by a simple command, so that this is the work itself; `exec` does the same at the end of a longer one.
//   - A process that both left its group and dropped its environment, and whose parent still lives
//     outside the group, cannot be told from a stranger until that parent ends.
//   - A process that this user may not kill (a set-user-id program that changed its user) is
//     waited for, not killed. Exec does not return before it ends. Such a program also clears the order to die with its parent.
//   - A host suspended beyond the lease: commands run for up to 50 ms after it wakes, until the guard
//     has looked at the clock. The same holds for guard, owner and commands frozen together and thawed. Fencing tokens are for that.
//   - On other systems than Linux there is no parent-death signal and no adoption of orphans: the guarantees
//     hold for process groups only, the clock is the wall clock, and 5 depends on the owner alone.
package guard
