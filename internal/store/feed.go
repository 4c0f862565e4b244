package store

import (
	"context"
	"sync"

	"github.com/hashicorp/consul/api"
)

// feed has what one watch of a prefix has seen last, for quiet watches of the same prefix.
type feed struct {
	all       *feeds
	of        feedOf
	users     int // watches that read it or write it
	followers int // those that read it

	view    View            // Index 0: nobody polls. Without followers it has no entries.
	number  uint64          // counts the views
	current context.Context // ends with the next view
	replace context.CancelFunc
}

// feedOf is what a feed is of: the same prefix of another client may have another Consul's keys.
type feedOf struct {
	client *api.Client
	prefix string
}

// feeds are the feeds of the watches that share a context.
type feeds struct {
	mu sync.Mutex
	of map[feedOf]*feed
}

type feedsKey struct{}

// SharePolls returns a context under which watches by the same client share their long polls. A
// quiet watch of a prefix has no poll of its own while a watch of the same prefix that is not quiet
// polls.
func SharePolls(ctx context.Context) context.Context {
	return context.WithValue(ctx, feedsKey{}, &feeds{of: map[feedOf]*feed{}})
}

// join begins the use of the feed of w's prefix. It returns nil where nothing is shared.
func (w *Watch) join(ctx context.Context) *feed {
	all, shared := ctx.Value(feedsKey{}).(*feeds)
	if !shared || !w.query.recurse {
		return nil
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	of := feedOf{client: w.store.client, prefix: w.query.key}
	f := all.of[of]
	if f == nil {
		f = &feed{all: all, of: of}
		f.current, f.replace = context.WithCancel(context.Background())
		all.of[of] = f
	}
	f.users++
	if w.quiet {
		f.followers++
	}
	return f
}

// leave ends the use of f. Without a user nothing is kept of it.
func (w *Watch) leave(f *feed) {
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	if w.quiet {
		f.followers--
	}
	if f.users--; f.users == 0 {
		f.replace()
		delete(f.all.of, f.of)
	}
}

// set replaces the view. The zero View says that nobody polls.
func (f *feed) set(v View) {
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	if f.followers == 0 {
		v.Entries = nil
	}
	f.view, f.number = v, f.number+1
	f.replace()
	f.current, f.replace = context.WithCancel(context.Background())
}

// get returns the view, its number, and a context that ends with the next one.
func (f *feed) get() (View, uint64, context.Context) {
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	return f.view, f.number, f.current
}

// followed is Next of a watch that follows a feed. The watch counts on the poll of the other one
// only while both have seen the same index. Otherwise it polls itself, until the other one says
// something: one of the two polls is behind.
func (w *Watch) followed(ctx context.Context) (View, error) {
	for {
		seen := w.number
		v, number, current := w.feed.get()
		w.number = number
		switch news := number != seen && v.Index != 0; {
		case w.index == 0:
			return w.first(ctx)
		case news && v.Index > w.index:
			w.index = v.Index
			return v, nil
		case news && v.Index < w.index:
			w.index = 0
			return w.first(ctx)
		case v.Index == w.index:
			select {
			case <-current.Done():
				continue
			case <-ctx.Done():
				return View{}, w.gaveUp(ctx)
			}
		}
		index := w.index
		poll, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(current, cancel)
		v, err := w.own(poll)
		stop()
		cancel()
		if err == nil || ctx.Err() != nil || current.Err() == nil {
			return v, err
		}
		w.index = index // the other one has spoken
	}
}
