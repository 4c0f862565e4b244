package supervisortest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/supervisor"
	"github.com/coordd/coordd/supervisor/supervisortest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder is a test that fails without failing this one.
type recorder struct {
	testing.TB
	errors  []string
	cleanup []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanup = append(r.cleanup, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

// of runs the tree for a second as a test of its own and gives its failures.
func of(t *testing.T, run func(context.Context) error) string {
	rec := &recorder{TB: t}
	supervisortest.Start(rec, "root",
		supervisor.Tree{Children: []supervisor.Child{{Name: "a", Run: run}}})
	time.Sleep(time.Second)
	for _, f := range rec.cleanup {
		f()
	}
	return strings.Join(rec.errors, "\n")
}

func TestACleanStopPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stops := func(ctx context.Context) error { <-ctx.Done(); return nil }
		if got := of(t, stops); got != "" {
			t.Errorf("failed: %s", got)
		}
	})
}

func TestAnEscalationFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if got := of(t, func(context.Context) error {
			return supervisor.Escalate(context.Canceled)
		}); !strings.Contains(got, "root gave up") {
			t.Errorf("got %q", got)
		}
	})
}

func TestAChildThatIsLeftBehindFailsByItsPathWithTheHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		letGo := make(chan struct{})
		got := of(t, func(context.Context) error { <-letGo; return nil })
		if !strings.Contains(got, "root/a") ||
			!strings.Contains(got, "TestAChildThatIsLeftBehind") {
			t.Errorf("got %q", got)
		}
		got = of(t, func(ctx context.Context) error {
			_, err := supervisor.Of(ctx).Start(supervisor.Child{Name: "b",
				Run: func(context.Context) error { <-letGo; return nil }})
			if err != nil {
				return err
			}
			return supervisor.Escalate(context.Canceled)
		})
		if !strings.Contains(got, "root/a (incarnation 1)") ||
			!strings.Contains(got, "root/b (for 5s)") {
			t.Errorf("got %q", got)
		}
		close(letGo)
	})
}
