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
	Err   string // why that item's last one could not be written
}

// lossPeriod is how far apart two reports of losses are.
const lossPeriod = 30 * time.Second

// losses reports the first loss at once, and then once a period what has come since.
type losses struct {
	report func(Loss) // never waits

	mu    sync.Mutex
	since Loss
	next  *time.Timer // nil: the next loss is reported at once
}

func (l *losses) add(item string, lines int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since.Lines += lines
	l.since.Item, l.since.Err = item, err.Error()
	if l.next == nil {
		l.tell()
		l.next = time.AfterFunc(lossPeriod, l.period)
	}
}

func (l *losses) period() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since.Lines == 0 {
		l.next = nil
		return
	}
	l.tell()
	l.next.Reset(lossPeriod)
}

// tell needs l.mu.
func (l *losses) tell() {
	if l.since.Lines > 0 {
		l.report(l.since)
		l.since = Loss{}
	}
}

// close reports what is left.
func (l *losses) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next != nil {
		l.next.Stop()
	}
	l.tell()
}
