//go:build unix

package output

import (
	"sync"
	"time"
)

// Loss tells the owner of lines that were not written.
type Loss struct {
	Lines int
	Item  string // one whose lines they were, the last
	Err   string // why that item's last one could not be written; empty: they were above the rate
}

// lossPeriod is how far apart two reports of losses are.
const lossPeriod = 30 * time.Second

// losses reports the first loss at once, and then once a period what has come since. Lines above
// the rate and others have one each: neither waits for the other's period.
type losses struct {
	report func(Loss) // never waits

	mu    sync.Mutex
	since Loss
	next  *time.Timer // nil: the next loss is reported at once
	over  bool
}

// add takes lines that are lost; a nil err says that they were above the rate.
func (l *losses) add(item string, lines int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since.Lines += lines
	l.since.Item = item
	if err != nil {
		l.since.Err = err.Error()
	}
	if l.next == nil && !l.over {
		l.tell()
	}
}

// tell needs l.mu.
func (l *losses) tell() {
	l.report(l.since)
	l.since = Loss{}
	l.next = time.AfterFunc(lossPeriod, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		switch {
		case l.over:
		case l.since.Lines == 0:
			l.next = nil
		default:
			l.tell()
		}
	})
}

// close reports what is left.
func (l *losses) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	if l.next != nil {
		l.next.Stop()
	}
	if l.since.Lines > 0 {
		l.report(l.since)
		l.since = Loss{}
	}
}
