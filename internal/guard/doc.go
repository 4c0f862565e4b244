//go:build unix

// Package guard runs commands as child processes that never outlive the right to run them.
//
// A small guard process, the same binary started with another command, is the parent of all of
// them. Its owner tells it over a pipe what to run and until when; from then on it needs nothing
// from its owner that the owner's death or freeze could withhold.
//
// What holds, on Linux:
//
//  1. Exec returns when nothing of its command is left: not its process, not its process group, and
//     nothing that left the group and can be traced back: by its cgroup, where cgroup v2 lets the
//     guard process have some (Config.NoCgroups), else by its parents and by a limit that each
//     command has of its own, or by its environment.
//  2. When the owner dies, however it dies, every command gets SIGTERM, then SIGKILL after the stop
//     timeout or shortly before the lease ends, whichever is earlier; then the guard process ends.
//  3. When the lease is not renewed, every command gets SIGTERM at the margin before its end, and
//     SIGKILL a quarter of the margin before it, whether the owner runs or not. The
//     end is an absolute time on two clocks, one that also counts while the host is suspended and
//     the wall clock; the one that says less is left counts.
//  4. Nothing starts without a lease, and nothing is prolonged by the lease of another session.
//  5. When the guard process dies, its commands' own processes die with it, by the kernel, but for
//     one that has changed its user or group, or whose program is set-user-ID or set-group-ID or
//     has file capabilities: for those the kernel forgets it. The owner kills the rest, ends every
//     running Exec with ErrLost once that is gone, and Run returns. Where something does not die,
//     3 s later the Execs end that it cannot belong to, and Run returns: the others end during
//     later ones, each when nothing of its command is left. If it may belong to any of several, no
//     Exec ends, and Run fails with ErrStuck after 45 s. So it does when the owner, or its host,
//     has no descriptor or memory left to look for the rest: what is in the guard process's
//     session, has its RLIMIT_RTTIME or has become the owner's child (Config.Adopt) is found and
//     killed without. But where the guard process could not set that limit, having one already, Run
//     does not fail for as long as that goes on. Run fails so, too, when an Exec waits and no guard
//     process has worked for 45 s, whatever kept each of them from it: it could not be started,
//     hung as it started, did not have the lock of BindLock.
//  6. When the guard process hangs, the owner kills it: after 10 s without an answer (a minute
//     until it has started, or as 5 says), when the lease is about to end with work running that it
//     has not killed, or when Kill has waited in vain. If it does not die then (it waits for a
//     disk, or its cgroup keeps it frozen), what it has started is killed beside it, no Exec ends
//     before it is gone, and Run fails with ErrStuck after 45 s. What was killed and does not die
//     costs it nothing, if it can look at what has begun on its host since SIGTERM, and at the
//     number of each other process, in a twentieth of the margin.
//  7. A clean end of Run leaves no guard process, no zombie and no goroutine.
//  8. What a dead guard and its dead owner left together is killed when the next guard process
//     starts on the host, in the same process namespace, and has the right to see it. What has
//     dropped or overwritten its environment is, if the next one has the same LockFile, or if there
//     were cgroups and it starts in the same.
//  9. A command gets one SIGTERM for each order to end, with its group.
//  10. LockID names a lock only when nothing runs any more that an earlier guard process with the
//     same file had started, however that one and its owner ended; but for what an Exec of the same
//     owner still waits for, which the lock file tells the next one. The guard process holds the
//     lock, and not its owner: a killed owner's commands keep it from the next one until they are
//     gone. When the lock is free at the start, LockID names it before Up is called, unless the
//     look for what earlier ones have left takes more than 2 s, as where processes begin and end
//     all the time: then it is gone on with, and LockID names the lock as soon as it has ended.
//     Once BindLock has returned it, nothing starts under another: 5 says what then. A guard
//     process that is stopped (SIGSTOP) and whose owner is dead does not keep it: the next one
//     kills it.
//  11. When the owner died, nothing of its commands is left and no successor is present at the
//     LockFile, the guard process says the owner's Goodbye: once, as long as its Limit allows, and
//     never for an owner that lives, frozen or not, or that ended by itself.
//  12. With Config.Output the guard process copies what commands write (see package output). No
//     end of a command, no goodbye and no lock waits for whoever reads it. The guard process's own
//     end does, for a second at most.
//
// What does not hold:
//
//   - Guard process and owner killed in the same instant, or the guard process killed while the
//     owner is frozen, or dead and 2 not done yet: the commands' own processes die at once, as 5
//     says, but what those had started lives on until 8, or until the owner thaws. A simple command
//     (a program and its arguments) replaces its shell, so that it is the work itself; `exec` does
//     so at the end of a longer one. A container's end, and systemd's default KillMode, take
//     everything from outside.
//   - Where /proc is not that of the process namespace nothing is guarded: CheckHost and Run say
//     so.
//   - Where /proc hides processes (hidepid) from the user of the owner, those that are hidden count
//     as no command's, or as any one's: other users', and the user's own that are not to be dumped,
//     as ssh-agent. HidesProcesses says so.
//   - Guard process frozen, and its owner dead or frozen: the commands run on until it thaws,
//     beyond the lease too, or until another one wants its lock and its owner is dead.
//   - Without cgroups, under a limit on real-time processor time (RLIMIT_RTTIME) that coordd was
//     started with: a process that left its group and dropped its environment, or changed its user,
//     is found when it has lost its parent, and is then killed without SIGTERM, even when it
//     belongs to another command that still runs. If it may not be killed, the command that was
//     ending by then does not end before it. When the guard process is killed, it is found by an
//     owner that lives and adopts it (Config.Adopt), and not at all without one.
//   - With cgroups: a process that has another one put it into a cgroup elsewhere (systemd-run, a
//     container engine), or that may do so itself, as root may, is no part of the command any more.
//   - Without cgroups, under such a limit, 8 holds for what has kept its environment: elsewhere all
//     commands have a limit of many thousand years there, by which they are known.
//   - A process that this user may not kill (a set-user-id program), or that the kernel does not
//     let end (state D), is waited for: Exec does not return before it ends, and the end of the
//     lease does not stop it.
//   - A host that was suspended, or guard, owner and commands frozen together, beyond the lease:
//     the commands run for up to 50 ms after they wake, until the guard has looked at the clocks.
//     Fencing tokens are for that.
//   - 10 counts among those who have the same file: not between users, not with another TMPDIR
//     where the path comes from it, not with a /tmp of one's own as containers and systemd's
//     PrivateTmp give. It is touched every hour; whoever removes it all the same lets the next
//     guard process lock another one. That it is another shows by its LockID: compare it with the
//     one that the predecessor wrote down. What 1 cannot trace, 10 does not wait for.
//   - 11 sees successors that see the same file, as 10 does, and that came before it has begun to
//     speak: what a goodbye does must bear one that comes after. A killed guard process says
//     nothing, and neither does one that never got the lock.
//   - Without the lock commands run all the same, if the lease allows it: what that lock means is
//     up to the owner. The lock file names no guard process that has never had the lock: of what
//     that one and its owner left when they were killed together, 8 and 10 know what has kept its
//     environment, or is in a cgroup beside their own.
//   - Other systems than Linux know no death signal and no adoption of orphans: there, all of this
//     is about process groups only, 5 depends on the owner alone, 8 is not there, and both clocks
//     are the wall clock.
package guard
