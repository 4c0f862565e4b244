package guard

import (
	"os"
	"slices"

	"github.com/coordd/coordd/internal/proc"
)

// round looks once at all processes that are not known to be foreign, and tells met of each one of
// the commands with those ids, of the guard with that token. It kills none but by kill. The error
// says that there was something that it could not look at: that is left for the next one.
func (s *sweep) round(token string, ids []uint64,
	met func(pid int, began, id uint64, kill func() error)) (whole bool, blind error) {
	foreign := map[int]uint64{}
	whole, err := s.all.round(func(p proc.Stat) {
		if p.PID == os.Getpid() {
			return
		}
		if began, ok := s.foreign[p.PID]; ok && began == p.Start {
			foreign[p.PID] = p.Start
			return
		}
		id, ours, err := commandOf(p.PID, token)
		switch {
		case err != nil:
			blind = err
		case !ours:
			foreign[p.PID] = p.Start
		}
		if slices.Contains(ids, id) {
			met(p.PID, p.Start, id, func() error { return killExactly(p) })
		}
	})
	s.foreign = foreign
	if err != nil {
		blind = err
	}
	return whole, blind
}
