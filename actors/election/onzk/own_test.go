//go:build coordd_elections

package onzk_test

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/go-zookeeper/zk"
)

// The session of a caller's own connection outlives Close. What it holds of elections must not.
func TestWhatACallersOwnConnectionHoldsGoesAfterClose(t *testing.T) {
	t.Parallel()
	s := begin(t, sessionTimeout)
	s.delay = -1
	w := &wire{}
	d := &onzk.Dialer{Base: w.Dial}
	zc, events, err := zk.Connect([]string{s.server.Addr(), s.server.Addr()}, crowdTimeout,
		zk.WithDialer(d.Dial), zk.WithLogger(quietly{}))
	must(t, err)
	defer zc.Close()
	own, err := onzk.New(zc, events, d, onzk.Config{Root: s.root, LockDelay: -1,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	must(t, err)
	a, _ := nominate(t, own, "a")
	wait(t, a, election.Leading)
	other := s.connect(t, &wire{})
	b, _ := nominate(t, other, "b")
	wait(t, b, election.Following)
	w.Cut()
	own.Close()
	a.Resign()
	time.Sleep(100 * time.Millisecond) // it is sent, to nobody
	w.Mend()                           // breaks the connection; the session goes on
	wait(t, b, election.Leading)
	<-a.Done()
	if state := zc.State(); state != zk.StateHasSession {
		t.Errorf("the caller's connection: %v", state)
	}
}

// quietly logs nothing.
type quietly struct{}

func (quietly) Printf(string, ...any) {}
