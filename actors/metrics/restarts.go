package metrics

import (
	"strings"

	"github.com/coordd/coordd/supervisor"
	"github.com/prometheus/client_golang/prometheus"
)

// The items of a member are the dynamic children of this supervisor.
const workers = "coordinator/workers"

// others is the label of actors that were not there when the tree was looked at first.
const others = "other"

// names are those of the actors directly below a root.
func names(r supervisor.Report) []string {
	var all []string
	for _, child := range r.Children {
		all = append(all, child.Name)
	}
	return all
}

// restarts shows the actors, those of the member and those of its process.
func (s *states) restarts(out chan<- prometheus.Metric) {
	actors := map[string]uint64{}
	work := tally(actors, s.own, s.member.Counters())
	if root := s.process(); root != nil {
		s.once.Do(func() { s.siblings = names(root.Report()) })
		tally(actors, s.siblings, root.Counters())
	}
	shown := map[string]uint64{} // several names may be shown alike
	for name, n := range actors {
		shown[shownAs(name)] += n
	}
	for name, n := range shown {
		counter(out, actorRestarts, float64(n), name)
	}
	counter(out, workRestarts, float64(work))
}

// tally adds the restarts of a tree to those of the actors directly below its root, which are
// known, and returns those of items. What is at an item's path is no actor's: no id becomes a
// label. An actor that has not failed is there with 0, for a series that begins above zero hides
// its first step from rate() and increase().
func tally(actors map[string]uint64, known []string, c supervisor.Counters) (work uint64) {
	for _, name := range known {
		actors[name] += 0
	}
	add := func(path string, n uint64) {
		_, below, _ := strings.Cut(path, "/")
		name, _, _ := strings.Cut(below, "/")
		if _, is := actors[name]; !is {
			name = others
		}
		if n > 0 { // a root is not restarted
			actors[name] += n
		}
	}
	for path, counts := range c.Children {
		add(path, counts.Restarts)
	}
	for path, counts := range c.Dynamic {
		if path == workers {
			work = counts.Restarts
			continue
		}
		add(path, counts.Restarts)
	}
	return work
}
