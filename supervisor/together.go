package supervisor

import (
	"context"
	"strconv"
)

// Together is a tree for functions that are done when all of them are, as those of an errgroup: it
// ends well when all have returned nil. The first that fails, or panics, ends the contexts of the
// others, and the tree fails with it. Its children are named by their place, "0" and so on.
func Together(functions ...func(context.Context) error) Tree {
	t := Tree{MaxRestarts: NoRestarts, AutoShutdown: AllDone, StopTogether: true}
	for i, f := range functions {
		t.Children = append(t.Children, Child{Name: strconv.Itoa(i), Restart: Transient, Run: f})
	}
	return t
}
