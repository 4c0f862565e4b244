// Package labels tells whose goroutines are, by their pprof labels.
package labels

import (
	"context"
	"runtime/pprof"
)

// Ending calls end, which ends ctx. What context.AfterFunc starts then has the labels of whoever
// ends the context: by this those of ctx itself. The caller has those of own afterwards.
func Ending(ctx, own context.Context, end func()) {
	pprof.SetGoroutineLabels(ctx)
	defer pprof.SetGoroutineLabels(own)
	end()
}
