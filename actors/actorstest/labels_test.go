package actorstest_test

import (
	"bytes"
	"context"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/actorstest"
)

// ownLabels are those of the goroutine that calls it, of which there is one at a time.
func ownLabels() string {
	var b bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&b, 1)
	for block := range strings.SplitSeq(b.String(), "\n\n") {
		if strings.Contains(block, "actorstest_test.ownLabels+") {
			_, labels, _ := strings.Cut(block, "# labels: ")
			labels, _, _ = strings.Cut(labels, "\n")
			return labels
		}
	}
	return "none"
}

// What hangs by then is found by its labels, and named for the work that it is of.
func TestWhatWorkStartsWhenItEndsIsKnownAsItsOwn(t *testing.T) {
	for name, end := range map[string]func(*actorstest.Member){
		"by a stop": (*actorstest.Member).Stop, "by its lease": (*actorstest.Member).CutOff,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				of := map[string]string{}
				until := func(ctx context.Context, whose string) error {
					over := make(chan struct{})
					context.AfterFunc(ctx, func() {
						defer close(over)
						mu.Lock()
						defer mu.Unlock()
						of[whose] = ownLabels()
					})
					<-over
					return nil
				}
				c := actorstest.New(t)
				c.AddWork("w1")
				leads := make(chan struct{}, 1)
				a := c.Start("a", func(ctx context.Context, item actors.Item) error {
					return until(ctx, "/workers/w1")
				}, func(cfg *actors.Config) {
					cfg.Lead = func(ctx context.Context) error {
						select {
						case leads <- struct{}{}:
							return until(ctx, "/lead")
						default: // the lease has come back
							<-ctx.Done()
							return nil
						}
					}
				})
				c.Await(10*time.Second, "a to work, and to lead", func() bool {
					return len(c.Workers()) == 1 && len(leads) == 1
				})
				end(a)
				c.Await(30*time.Second, "a to have stopped both", func() bool {
					mu.Lock()
					defer mu.Unlock()
					return len(of) == 2
				})
				for whose, labels := range of {
					if !strings.Contains(labels, whose+`"`) {
						t.Errorf("that of %s is known by %s", whose, labels)
					}
				}
			})
		})
	}
}
