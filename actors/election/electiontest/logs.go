package electiontest

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/actors/election"
)

// loggerBlocks has a candidate whose log nobody takes, at first or from the moment that it leads.
func loggerBlocks(g *game) {
	for _, early := range []bool{false, true} {
		l := &blockade{open: make(chan struct{})}
		if early {
			l.blocked.Store(true)
		}
		a := g.nominate("a", func(p *player) { p.cfg.Logger = slog.New(l) })
		begin := time.Now()
		a.leads()
		for g.at(theElection) != a {
			if time.Since(begin) > patience {
				g.t.Fatal("a leads, and its duty does not begin")
			}
			time.Sleep(10 * time.Millisecond)
		}
		l.blocked.Store(true)
		b := g.nominate("b")
		b.followsSomeone()
		a.link.Cut()
		b.leads() // the referee sees to it that a has stopped
		if s := a.e.Status(); s.Role == election.Leading {
			g.t.Errorf("b leads, and a says that it is %v", s)
		}
		a.link.Mend()
		a.ends()
		close(l.open)
		b.resigns()
	}
}

// blockade is a log that waits, once it is blocked, until it is open.
type blockade struct {
	blocked atomic.Bool
	open    chan struct{}
}

func (b *blockade) Enabled(context.Context, slog.Level) bool { return true }
func (b *blockade) WithAttrs([]slog.Attr) slog.Handler       { return b }
func (b *blockade) WithGroup(string) slog.Handler            { return b }

func (b *blockade) Handle(context.Context, slog.Record) error {
	if b.blocked.Load() {
		<-b.open
	}
	return nil
}
