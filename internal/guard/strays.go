//go:build unix

package guard

import "syscall"

// ending lists the commands whose leader has ended, or should have, for it was killed. Other
// processes of them may still run.
func (cr *commandRunner) ending() []uint64 {
	var ids []uint64
	for id, r := range cr.runs {
		if r.leaderGone || r.killed {
			ids = append(ids, id)
		}
	}
	return ids
}

// confinedLeft stops what is left in the cgroup of a run that is ending, and tells whether anything
// was.
func (cr *commandRunner) confinedLeft(r *run) bool {
	if !r.confined {
		return false
	}
	pids, any := cr.cgroups.members(r.id)
	if !any {
		return false
	}
	if r.killed {
		cr.cgroups.kill(r.id) // again: someone may have come in from outside since
		return true
	}
	for _, pid := range pids {
		if pgid, err := syscall.Getpgid(pid); err != nil || pgid == r.pgid && !r.groupGone ||
			r.termed[pid] {
			continue // dead, or told already
		}
		r.termed[pid] = true
		_ = signalExactly(pid, syscall.SIGTERM, func() bool {
			id, ok := cr.cgroups.command(pid)
			return ok && id == r.id
		})
	}
	return true
}

// chaseStrays stops the processes that left their group and then lost their parent: they are ours.
// It returns the runs that still have some, and those of a run that was killed, as far as they are
// known. One that cannot be told to belong to a running command is killed. blind: there may be
// more.
func (cr *commandRunner) chaseStrays() (left map[uint64]bool, killed map[uint64][]int, blind bool) {
	left, killed = map[uint64]bool{}, map[uint64][]int{}
	groups := map[int]bool{}
	for _, r := range cr.runs {
		groups[r.pgid] = groups[r.pgid] || !r.groupGone
	}
	all, err := children()
	blind = err != nil
	for _, pid := range all {
		if cr.leaders[pid] != nil {
			continue
		}
		if pgid, err := syscall.Getpgid(pid); err != nil || groups[pgid] {
			continue // dead, or reached with its group
		}
		if id, ok := cr.cgroups.command(pid); ok && cr.runs[id] != nil {
			// dead, perhaps, and to be reaped first; the living ones are confinedLeft's
			left[id] = left[id] || cr.runs[id].leaderGone
			continue
		}
		id, _, err := commandOf(pid, cr.token)
		if err != nil {
			blind = true
			continue
		}
		r := cr.runs[id]
		switch {
		case id != 0 && r == nil: // its command was seen to be gone: no other one's
			_ = syscall.Kill(pid, syscall.SIGKILL)
		case id == 0:
			if _, seen := cr.unknown[pid]; !seen {
				cr.unknown[pid] = cr.ending()
			}
			for _, id := range cr.unknown[pid] {
				left[id] = true
			}
			_ = syscall.Kill(pid, syscall.SIGKILL)
		case !r.leaderGone && !r.killed:
			// Its command runs: it may keep its helpers.
		case r.killed:
			left[id], killed[id] = true, append(killed[id], pid)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		default:
			left[id] = true
			if !r.termed[pid] {
				r.termed[pid] = true
				_ = syscall.Kill(pid, syscall.SIGTERM)
			}
		}
	}
	if blind { // what could not be looked at may be anybody's
		for _, id := range cr.ending() {
			left[id] = true
		}
	}
	return left, killed, blind
}
