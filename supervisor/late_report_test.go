package supervisor_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/supervisor"
)

// states are those of children at their paths, and since when they are in them.
func (r *running) states(t *testing.T, since time.Time, want map[string]supervisor.State) {
	t.Helper()
	for path, state := range want {
		got := r.find(t, path)
		if got.State != state || !got.Since.Equal(since) {
			t.Errorf("%s is %s since %v, want %s since %v",
				path, got.State, got.Since, state, since)
		}
	}
}

func TestAReportAfterTheEndShowsWhoHasEndedLateSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		letGo := make(chan struct{})
		r := start(t, supervisor.Tree{Children: []supervisor.Child{
			hanging("leaf", letGo), treeOf("office", hanging("clerk", letGo))}})
		stuckOf(t, r.end())
		for _, path := range []string{"root/leaf", "root/office", "root/office/clerk"} {
			if s := r.find(t, path).State; s != supervisor.StateStuck {
				t.Errorf("%s is %s while it hangs", path, s)
			}
		}
		time.Sleep(time.Hour)
		close(letGo)
		ended := time.Now()
		time.Sleep(time.Hour)
		r.states(t, ended, map[string]supervisor.State{"root/leaf": supervisor.StateStopped,
			"root/office": supervisor.StateStopped, "root/office/clerk": supervisor.StateStopped})
	})
}

func TestAReportShowsWhoHasEndedLateInATreeThatIsDone(t *testing.T) {
	for _, running := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			letGo := make(chan struct{})
			job := treeOf("job", hanging("leaf", letGo), supervisor.Child{Name: "done",
				Restart: supervisor.Temporary, Significant: true,
				Run: func(context.Context) error { return nil }})
			job.Tree.AutoShutdown, job.Restart = supervisor.AllSignificant, supervisor.Temporary
			r := start(t, supervisor.Tree{Children: []supervisor.Child{job}})
			time.Sleep(time.Minute)
			if !running {
				stuckOf(t, r.end())
			}
			close(letGo)
			ended := time.Now()
			time.Sleep(time.Hour)
			r.states(t, ended, map[string]supervisor.State{"root/job": supervisor.StateDone,
				"root/job/leaf": supervisor.StateStopped})
			if running {
				r.mustEnd(t)
			}
		})
	}
}
