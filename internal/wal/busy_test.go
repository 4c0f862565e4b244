package wal

import (
	"os"
	"testing"
	"time"
)

func TestWhetherALogIsInItsPlaceIsToldWhileTheDiskIsBusy(t *testing.T) {
	dir, begun, resume := t.TempDir(), make(chan struct{}, 1), make(chan struct{})
	busy := false
	l, _, err := Open(dir, Options{Sync: func(f *os.File) error {
		if busy {
			begun <- struct{}{}
			<-resume
		}
		return f.Sync()
	}})
	if err != nil {
		t.Fatal(err)
	}
	busy = true
	done := make(chan error, 1)
	go func() { done <- l.Append([]byte("x")) }()
	<-begun
	held := make(chan error, 1)
	go func() { held <- l.Held() }()
	select {
	case err := <-held:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Error("not told within 5 s, while an fsync is under way")
	}
	close(resume)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
