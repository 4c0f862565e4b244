package web

import (
	"context"
	"iter"
	"sync"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/messages"
)

// defaultFollowers is the most clients that follow the events.
const defaultFollowers = 64

// feed is the event log for those who follow it. However many they are, there is one long poll
// while there is any of them, and none else. Nothing is queued for a follower: one that takes its
// time finds the newest log.
type feed struct {
	watch func(context.Context) iter.Seq[actors.EventLog]
	most  int

	mu        sync.Mutex
	followers int
	log       *messages.State[feedLog]
	stop      context.CancelFunc
}

// feedLog is the log; known: it has been read.
type feedLog struct {
	actors.EventLog
	known bool
}

func newFeed(watch func(context.Context) iter.Seq[actors.EventLog], most int) *feed {
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
	if f.followers++; f.followers == 1 {
		log := messages.NewState(feedLog{})
		var ctx context.Context
		ctx, f.stop = context.WithCancel(context.Background())
		f.log = log
		go func() { // an operator's calls are contained: a transport that panics fails one of them
			for l := range f.watch(ctx) {
				log.Set(feedLog{l, true})
			}
		}()
	}
	return &follower{f.log.Subscribe(), f}, true
}

// leave gives the place back.
func (f *follower) leave() {
	f.feed.mu.Lock()
	defer f.feed.mu.Unlock()
	if f.feed.followers--; f.feed.followers == 0 {
		f.feed.stop()
	}
}
