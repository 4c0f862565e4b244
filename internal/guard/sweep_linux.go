package guard

import (
	"os"
	"slices"

	"github.com/coordd/coordd/internal/proc"
)

// killCommands kills all that is left of commands of the guard with that token, one round, and
// tells met of each process. It returns whether the round was whole: what it could not look at is
// left for the next one.
func killCommands(all *census, token string, ids []uint64,
	met func(pid int, began, id uint64)) (whole bool) {
	blind := false
	whole, err := all.round(func(s proc.Stat) {
		if s.PID == os.Getpid() {
			return
		}
		id, _, err := commandOf(s.PID, token)
		if err != nil {
			blind = true
		}
		if slices.Contains(ids, id) {
			met(s.PID, s.Start, id)
			killExactly(s)
		}
	})
	return whole && err == nil && !blind
}
