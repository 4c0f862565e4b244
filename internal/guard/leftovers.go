//go:build unix

package guard

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// leastRounds is how often clearAway looks before it says of anything that it does not die: it may
// have stood still itself in the meantime.
const leastRounds = 10

// leftCheck is how often what does not die is looked at, where a look is quick.
const leftCheck = time.Second

// rest is how long to wait after a look that took so long: what does not die may be there for days,
// and is not to cost a processor.
func rest(look time.Duration) time.Duration { return max(leftCheck, 10*look) }

// errPassing says that a round of the census was not whole.
var errPassing = errors.New("processes end before they can be looked at")

// remains are the processes that a dead guard process has left, each with its command. 0: it may be
// any of them.
type remains map[int]uint64

func (r remains) add(pid int, id uint64) { r[pid] = max(r[pid], id) }

// commands are those of the remains, and whether each of these is known to be one's.
func (r remains) commands() (ids map[uint64]bool, known bool) {
	ids, known = map[uint64]bool{}, true
	for _, id := range r {
		ids[id], known = true, known && id != 0
	}
	return ids, known
}

// pids lists those that can be seen.
func (r remains) pids() []int {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(r)), func(pid int) bool { return pid <= 0 })
}

// clearAway kills what the guard process left, and ends the Execs of all commands of which nothing
// is left. It returns when nothing is, or when it is known of all that does not die whose it is:
// those commands are left to chase. For what may be anybody's it does not end an Exec: a command
// that ended in name only must not be started elsewhere. Nor does it while the guard process itself
// does not die: that has its lock. Then it returns an error, in the end; but not while this process
// or its host has nothing to look with, and what could be killed may be there without the limit by
// which it is found then.
func (w *watch) clearAway() error {
	pause := time.Millisecond
	warned := false
	rounds := 0
	for begin := time.Now(); ; time.Sleep(pause) {
		looks := time.Now()
		left, blind := w.round(0)
		now := time.Now()
		rounds++
		sure := w.limited || !cannotLook(blind) // it has killed what can be killed
		lacks := w.g.lacks(sure)
		ids, known := left.commands()
		if only := w.l.ids(); !known && len(only) <= 1 && !w.hangs &&
			len(w.g.leftExcept(w)) == 0 {
			ids, known = only, true // there is nobody else whose it could be
		}
		waited, stuck := now.Sub(begin), lacks > w.g.stuckAfter
		switch {
		case len(left) == 0 && blind == nil:
			w.l.fail(w.cause, w.both, nil)
			return nil
		case waited <= stopSlack || rounds < leastRounds:
		case known && blind == nil:
			w.g.cfg.Logger.Error("processes-will-not-die", "pids", left.pids(), "items",
				w.l.names(ids), "then", "their items stay as they are until they are gone")
			w.l.fail(w.cause, w.both, ids)
			w.left = ids
			w.g.leave(w)
			return nil
		case stuck && sure && blind != nil && !errors.Is(blind, errPassing):
			return fmt.Errorf("what the guard process left cannot be looked for: %w", blind)
		case stuck && blind == nil:
			return fmt.Errorf("processes %v, which the guard process left, do not die, and may be "+
				"any item's", left.pids())
		case warned:
		case blind != nil:
			w.g.cfg.Logger.Error("processes-cannot-be-seen", "err", blind, "then",
				"what the guard process left counts as running until it can be looked for")
			warned = true
		default:
			w.g.cfg.Logger.Error("processes-will-not-die", "pids", left.pids(), "then",
				"they may be any item's: all items stay as they are until they are gone")
			warned = true
		}
		// Not beyond the time to give up, nor longer than counts.
		pause = min(2*pause, rest(now.Sub(looks)), w.g.stuckAfter/leastLooks,
			max(leftCheck, w.g.stuckAfter-lacks))
		if len(left) == 0 && errors.Is(blind, errPassing) {
			pause = time.Millisecond
		}
	}
}

// round kills what the guard process left, once, and returns what it saw alive. The error says that
// there may be more. but is the guard process that is up now; 0: none is.
func (w *watch) round(but int) (left remains, blind error) {
	left = remains{}
	gone := w.gone()
	if !gone { // it has had its signal
		but = w.cmd.Process.Pid
		left.add(but, 0)
	}
	if w.cgroup != "" {
		blind = killCgroups(w.cgroup, left) // all of it at one blow
	}
	if w.token != "" { // else it has run nothing
		blind = errors.Join(blind, w.killLeftovers(left))
	}
	if cannotLook(blind) && (w.limited || len(w.l.started()) > 0) {
		w.killByNumber(left)
	}
	if w.adopt {
		others := w.g.leftExcept(w)
		adopted := 0
		err := killAdopted(but, func(pid int) {
			id, ours, err := commandOf(pid, w.token)
			blind = errors.Join(blind, err)
			for _, o := range others {
				if _, is, _ := commandOf(pid, o.token); is && !ours {
					return // it is theirs to wait for
				}
			}
			adopted++
			left.add(pid, id)
		})
		if err == nil && adopted == 0 && gone {
			blind = nil // what could not be looked at is no descendant of the guard process
		}
		blind = errors.Join(blind, err)
	}
	return left, blind
}

// leave has what does not die of a dead guard process looked after from now on.
func (g *Guard) leave(w *watch) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left = append(g.left, w)
}

// leftExcept are the dead guard processes of which something is left, without w.
func (g *Guard) leftExcept(w *watch) []*watch {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(g.left), func(o *watch) bool { return o == w })
}

// leftTokens are their tokens, for the next guard process.
func (g *Guard) leftTokens() string {
	var tokens []string
	for _, w := range g.leftExcept(nil) {
		tokens = append(tokens, w.token)
	}
	return strings.Join(tokens, " ")
}

// hasAdopted tells whether children of this process are known to be such leftovers.
func (g *Guard) hasAdopted() bool {
	return slices.ContainsFunc(g.leftExcept(nil), func(w *watch) bool { return w.adopt })
}

// chase kills what does not die once more, and ends the Execs of those of whom nothing is left any
// more. It returns whether anything is.
func (g *Guard) chase(but int) bool {
	for _, w := range g.leftExcept(nil) {
		left, blind := w.round(but)
		ids, known := left.commands()
		if blind != nil || !known {
			continue
		}
		if len(left) > 0 {
			// Two rounds, for one may have missed a process that another passed its work on to.
			keep := maps.Clone(ids)
			maps.Copy(keep, w.left)
			w.l.fail(w.cause, w.both, keep)
			w.left = ids
			continue
		}
		g.cfg.Logger.Info("processes-gone", "items", w.l.names(nil))
		w.l.fail(w.cause, w.both, nil)
		g.mu.Lock()
		g.left = slices.DeleteFunc(g.left, func(o *watch) bool { return o == w })
		g.mu.Unlock()
	}
	return len(g.leftExcept(nil)) > 0
}

// beginChase chases while another guard process runs. The func that it returns ends that, and
// returns when it has ended.
func (g *Guard) beginChase(guardPID int) (end func()) {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for looks := time.Now(); g.chase(guardPID); looks = time.Now() {
			select {
			case <-stop:
				return
			case <-time.After(rest(time.Since(looks))):
			}
		}
	}()
	return func() { close(stop); <-ended }
}

// awaitLeft chases until nothing is left: a clean end leaves nothing.
func (g *Guard) awaitLeft() {
	for looks := time.Now(); g.chase(0); looks = time.Now() {
		time.Sleep(rest(time.Since(looks)))
	}
}
