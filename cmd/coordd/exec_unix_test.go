//go:build linux

package main

import (
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/output"
	"github.com/coordd/coordd/internal/protocol"
)

// The dead process is this one as it would be had it started earlier. Its lock is a file, which
// another one replaces or another directory hides: then it may run commands that hold the first.
func TestADeadPredecessorsCommandsAreKnownToBeGoneByItsVeryLockAlone(t *testing.T) {
	dead := protocol.Self("before")
	dead.StartTime--
	if dead.Liveness() != protocol.Dead {
		t.Fatalf("it is %v", dead.Liveness())
	}
	privateRuntimeDir(t)
	file := lockFile("svc", "m1")
	must(t, checkLock(file))
	var st syscall.Stat_t
	must(t, syscall.Stat(file, &st))
	id := fmt.Sprintf("%x.%x.%d", st.Dev, st.Ino, st.Uid)

	idle := func(lock string) actors.Liveness {
		dead.Lock = lock
		return idleLiveness("svc", "m1")(dead)
	}
	own := idleLiveness("svc", "m1")
	for _, c := range []struct {
		lock string
		want actors.Liveness
	}{{actors.NoLock, actors.Dead}, {"", actors.Unknown}, {id + "1", actors.Unknown}} {
		if got := idle(c.lock); got != c.want {
			t.Errorf("without commands of its own: lock %q: %v, want %v", c.lock, got, c.want)
		}
	}
	held, err := os.OpenFile(file, os.O_RDWR, 0)
	must(t, err)
	must(t, syscall.Flock(int(held.Fd()), syscall.LOCK_EX))
	if got := idle(id); got != actors.Unknown {
		t.Errorf("its guard process lives: %v", got)
	}
	held.Close()
	dead.Lock = id
	for range 2 {
		if got := own(dead); got != actors.Dead {
			t.Errorf("its lock is free: %v", got)
		}
	}
	must(t, os.Remove(file))
	if got := idle(id); got != actors.Unknown {
		t.Errorf("its lock file is not there: %v", got)
	}

	c, err := newCommands(runFlags{serviceFlags: serviceFlags{service: "svc"}, id: "m1",
		exec: "true", ttl: 10 * time.Second}, output.Config{}, time.Second,
		slog.New(slog.DiscardHandler))
	must(t, err)
	for lock, want := range map[string]actors.Liveness{actors.NoLock: actors.Dead,
		"": actors.Unknown, id: actors.Unknown} {
		dead.Lock = lock
		if got := c.liveness(dead); got != want {
			t.Errorf("without a lock: lock %q: %v, want %v", lock, got, want)
		}
	}
}
