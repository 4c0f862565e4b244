package electiontest

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/actors/election"
)

// loggerBlocks blocks the log of a candidate, from the start or from the moment that it leads.
func loggerBlocks(sc *scenario) {
	for _, early := range []bool{false, true} {
		l := &blockedLog{open: make(chan struct{})}
		if early {
			l.blocked.Store(true)
		}
		a := sc.nominate("a", func(p *participant) { p.cfg.Logger = slog.New(l) })
		begin := time.Now()
		a.leads()
		for sc.whoWorks(defaultElection) != a {
			if time.Since(begin) > patience {
				sc.t.Fatal("a leads, and its duty does not begin")
			}
			time.Sleep(10 * time.Millisecond)
		}
		l.blocked.Store(true)
		b := sc.nominate("b")
		b.followsSomeone()
		a.link.Cut()
		b.leads() // participant.begin fails the test if a still works
		if s := a.e.State().Get(); s.Role == election.Leading {
			sc.t.Errorf("b leads, and a says that it is %v", s)
		}
		a.link.Mend()
		a.ends()
		close(l.open)
		b.resigns()
	}
}

// blockedLog is a log that waits, once it is blocked, until it is open.
type blockedLog struct {
	blocked atomic.Bool
	open    chan struct{}
}

func (b *blockedLog) Enabled(context.Context, slog.Level) bool { return true }
func (b *blockedLog) WithAttrs([]slog.Attr) slog.Handler       { return b }
func (b *blockedLog) WithGroup(string) slog.Handler            { return b }

func (b *blockedLog) Handle(context.Context, slog.Record) error {
	if b.blocked.Load() {
		<-b.open
	}
	return nil
}
