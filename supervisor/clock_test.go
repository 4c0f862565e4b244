package supervisor_test

import (
	"testing"
	"time"
	"unsafe"

	"github.com/coordd/coordd/supervisor"
)

// setBack is the time by a wall clock that was set back by an hour. The monotonic clock went on.
func setBack(t *testing.T, at time.Time) time.Time {
	t.Helper()
	const nanoseconds = 30 // bits of a time.Time's first word that are not its seconds
	back := at
	*(*uint64)(unsafe.Pointer(&back)) -= 3600 << nanoseconds
	if at.Round(0).Sub(back.Round(0)) != time.Hour || back.Sub(at) != 0 {
		t.Fatal("package time keeps times in another way")
	}
	return back
}

func TestAClockThatIsSetBackDoesNotProlongAStop(t *testing.T) {
	started := time.Now()
	asked := started.Add(time.Minute)
	for _, now := range []time.Time{asked.Add(5 * time.Second),
		setBack(t, asked.Add(5*time.Second))} {
		if got := supervisor.Waited(started, asked, now); got != 5*time.Second {
			t.Errorf("a child that was asked 5s ago was waited for for %v", got)
		}
	}
	if got := supervisor.Waited(started, started, started.Add(time.Second)); got != time.Second {
		t.Errorf("a child that was asked at once was waited for for %v", got)
	}
}
