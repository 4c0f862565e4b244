//go:build coordd_elections

package onzk_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coordd/coordd/actors/election"
)

// A real ZooKeeper that has lost its data refuses whoever has seen more than it has ("Refusing
// session request", in its log), and never says that the session is gone.
func TestAZooKeeperThatLostItsDataHasLeadersAgain(t *testing.T) {
	t.Parallel()
	s := begin(t, sessionTimeout)
	c := s.connect(t, &wire{})
	for range 300 { // zxids that a new server does not reach by itself
		_, _ = c.ZK().Create("/x", nil, 0, nil)
	}
	e, _ := nominate(t, c, "n1")
	wait(t, e, election.Leading)
	conf, err := s.server.Ask(t.Context(), "conf")
	must(t, err)
	dir := ""
	for line := range strings.Lines(conf) {
		if d, ok := strings.CutPrefix(strings.TrimSpace(line), "dataDir="); ok {
			dir = d
		}
	}
	if filepath.Base(dir) != "version-2" {
		dir = filepath.Join(dir, "version-2")
	}
	must(t, s.server.Kill())
	must(t, os.RemoveAll(dir))
	must(t, os.Mkdir(dir, 0o700))
	s.Start()
	ctx, cancel := context.WithTimeout(t.Context(), 10*sessionTimeout)
	defer cancel()
	select {
	case <-e.Done():
		if now := e.State().Get(); !errors.Is(now.Err, election.ErrSessionLost) {
			t.Errorf("it is told %v", now)
		}
	case <-ctx.Done():
		t.Fatalf("it is %v, by its contact %+v", e.State().Get(), c.Contact().Get())
	}
	next, _ := nominate(t, c, "n2")
	wait(t, next, election.Leading)
}
