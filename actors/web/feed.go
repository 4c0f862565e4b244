package web

import (
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/messages"
	"github.com/coordd/coordd/supervisor"
)

// defaultFollowers is the most clients that follow the events.
const defaultFollowers = 64

// feed is the event log for those who follow it. However many they are, there is one long poll
// while there is any of them, and none else. Nothing is queued for a follower: one that takes its
// time finds the newest log.
type feed struct {
	watch func(context.Context) iter.Seq[operator.EventLog]
	most  int

	mu        sync.Mutex
	followers int
	log       *messages.State[feedLog]
	stop      context.CancelFunc
}

// feedLog is the log; known: it has been read. err: it is read no more.
type feedLog struct {
	operator.EventLog
	known bool
	err   error
}

var errUnread = errors.New("the event log is read no more")

func newFeed(watch func(context.Context) iter.Seq[operator.EventLog], most int) *feed {
	return &feed{watch: watch, most: most}
}

// follower is one client's place.
type follower struct {
	log  *messages.Cursor[feedLog]
	feed *feed
}

// join takes a place; false: there is none.
func (f *feed) join() (*follower, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.followers >= f.most {
		return nil, false
	}
	// One that was read no more is begun anew, also while others have not left yet.
	if f.followers++; f.followers == 1 || f.log.Get().err != nil {
		if f.followers > 1 {
			f.stop()
		}
		log := messages.NewState(feedLog{})
		var ctx context.Context
		ctx, f.stop = context.WithCancel(context.Background())
		f.log = log
		go f.read(ctx, log)
	}
	return &follower{f.log.Subscribe(), f}, true
}

// read is for all followers, in nobody's request: net/http would catch a panic there.
func (f *feed) read(ctx context.Context, log *messages.State[feedLog]) {
	err := errUnread
	defer func() { log.Set(feedLog{err: err}) }() // also where its goroutine is ended
	failed := supervisor.Protect(func() error {
		for l := range f.watch(ctx) {
			log.Set(feedLog{EventLog: l, known: true})
		}
		return nil
	})
	if failed != nil {
		err = failed
	}
}

// leave gives the place back.
func (f *follower) leave() {
	f.feed.mu.Lock()
	defer f.feed.mu.Unlock()
	if f.feed.followers--; f.feed.followers == 0 {
		f.feed.stop()
	}
}
