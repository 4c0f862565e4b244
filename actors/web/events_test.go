package web

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/actorstest"
	"github.com/coordd/coordd/actors/operator"
)

// piped is the answer to a client that reads it as it comes.
type piped struct {
	*io.PipeWriter
	header http.Header
	code   chan int
}

func (p *piped) Header() http.Header  { return p.header }
func (p *piped) WriteHeader(code int) { p.code <- code }
func (p *piped) Flush()               {}

// listener is a client that follows the events.
type listener struct {
	mu     sync.Mutex
	events []operator.Event
	last   string // id of the last event
	leave  context.CancelFunc
	gone   sync.WaitGroup
}

func (l *listener) seen() ([]operator.Event, string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events, l.last
}

// listen follows the events until the client leaves.
func listen(t *testing.T, h http.Handler, url string, headers ...string) *listener {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &listener{leave: cancel}
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	r.Host = "localhost"
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	from, to := io.Pipe()
	l.gone.Go(func() {
		h.ServeHTTP(&piped{to, http.Header{}, make(chan int, 1)}, r)
		_ = to.Close()
	})
	l.gone.Go(func() {
		for lines := bufio.NewScanner(from); lines.Scan(); {
			l.mu.Lock()
			if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
				l.last = id
			} else if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var e operator.Event
				if err := json.Unmarshal([]byte(data), &e); err != nil {
					t.Error(err)
				}
				l.events = append(l.events, e)
			}
			l.mu.Unlock()
		}
	})
	return l
}

func (l *listener) end() {
	l.leave()
	l.gone.Wait()
}

func counted(events []operator.Event) map[string]int {
	n := map[string]int{}
	for _, e := range events {
		n[e.Kind] += max(1, len(e.Items))
	}
	return n
}

// alone is a cluster of one member, which leads, and the member's page.
func alone(t *testing.T) (*actorstest.Cluster, http.Handler) {
	t.Helper()
	cluster := actorstest.New(t)
	n1 := cluster.Start("n1", nil)
	time.Sleep(5 * time.Second)
	return cluster, New(n1.Coordinator(), Options{})
}

func TestWhoFollowsTheEventsHearsThemAndResumesWhereItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, h := alone(t)
		l := listen(t, h, "/v1/events", "Accept", "text/event-stream")
		time.Sleep(time.Second)
		if events, _ := l.seen(); len(events) > 0 {
			t.Errorf("what was before it came: %v", events)
		}
		cluster.AddWork("a", "b")
		time.Sleep(5 * time.Second)
		events, last := l.seen()
		if n := counted(events); n["granted"] != 2 {
			t.Errorf("two items are granted, and it heard %v", n)
		}
		l.end()
		cluster.AddWork("c")
		time.Sleep(5 * time.Second)
		for _, again := range []*listener{
			listen(t, h, "/v1/events?follow", "Last-Event-ID", last),
			listen(t, h, "/v1/events?follow=true&after="+last),
			listen(t, h, "/v1/events?follow&after=1", "Last-Event-ID", last),
			listen(t, h, "/v1/events?follow&since=1m", "Last-Event-ID", last), // as browsers do
			listen(t, h, "/v1/events?follow&after=1&about=c"),
		} {
			time.Sleep(time.Second)
			events, _ := again.seen()
			if n := counted(events); n["granted"] != 1 {
				t.Errorf("one item was granted meanwhile, and it heard %v", n)
			}
			again.end()
		}
	})
}

func TestAStreamOfEventsEndsWhenItsHostStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := actorstest.New(t)
		n1 := cluster.Start("n1", nil)
		stopping := make(chan struct{})
		l := listen(t, New(n1.Coordinator(), Options{Stopping: stopping}), "/v1/events?follow")
		time.Sleep(time.Minute)
		close(stopping)
		l.gone.Wait() // it would wait for ever
		l.end()
	})
}

// aLog yields a log each second, and counts who watches.
type aLog struct {
	mu       sync.Mutex
	watching int
	most     int
	begun    int
}

func (a *aLog) watch(ctx context.Context) iter.Seq[operator.EventLog] {
	return func(yield func(operator.EventLog) bool) {
		a.mu.Lock()
		a.watching++
		a.begun++
		a.most = max(a.most, a.watching)
		a.mu.Unlock()
		defer func() {
			a.mu.Lock()
			a.watching--
			a.mu.Unlock()
		}()
		for ctx.Err() == nil && yield(operator.EventLog{}) {
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
}

func TestHoweverManyFollowTheEventsThereIsOneLongPollAndOnlyWhileTheyDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log aLog
		s := showing(&fakeLooker{})
		s.follow = newFeed(log.watch, 20)
		var all []*listener
		for range 20 {
			all = append(all, listen(t, s.handler(), "/v1/events?follow"))
		}
		synctest.Wait()
		if w := ask(s, "/v1/events?follow"); w.Code != http.StatusServiceUnavailable ||
			!strings.Contains(w.Body.String(), "20 clients follow the events") {
			t.Errorf("one more: %d %s", w.Code, w.Body)
		}
		time.Sleep(10 * time.Second)
		for _, l := range all {
			l.end()
		}
		synctest.Wait()
		if log.most != 1 || log.begun != 1 || log.watching != 0 {
			t.Errorf("watched %d times at once, begun %d times, left over %d", log.most, log.begun,
				log.watching)
		}
		l := listen(t, s.handler(), "/v1/events?follow")
		synctest.Wait()
		if log.watching != 1 {
			t.Errorf("one who comes later: %d watch", log.watching)
		}
		l.end()
	})
}

// A client that takes nothing holds the log of that moment and nothing else: nothing is queued.
func TestAFollowerThatTakesNothingHurtsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, h := alone(t)
		until := make(chan struct{})
		var stuck sync.WaitGroup
		stuck.Go(func() {
			r := httptest.NewRequest(http.MethodGet, "/v1/events?follow&after=1", nil)
			r.Host = "localhost"
			h.ServeHTTP(stuckWriter{httptest.NewRecorder(), until}, r)
		})
		l := listen(t, h, "/v1/events?follow")
		time.Sleep(time.Second)
		for i := range 30 {
			cluster.AddWork(fmt.Sprint("item-", i))
			time.Sleep(2 * time.Second)
		}
		events, _ := l.seen()
		if n := counted(events); n["granted"] != 30 {
			t.Errorf("beside one that takes nothing a follower heard %v of 30", n)
		}
		close(until)
		stuck.Wait()
		l.end()
	})
}

func TestTheItemsComeInPagesThatLinkToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := actorstest.New(t)
		n1 := cluster.Start("n1", nil)
		want := map[string]bool{}
		for i := range 25 {
			id := fmt.Sprintf("item %d, of & all", i)
			cluster.AddWork(id)
			want[id] = true
		}
		time.Sleep(10 * time.Second)
		h := New(n1.Coordinator(), Options{})
		next, pages := "?limit=10&state=running", 0
		link := regexp.MustCompile(`^<(\?[^>]*)>; rel="next"$`)
		for ; next != ""; pages++ {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/v1/items"+next,
				nil)
			r.Host = "localhost"
			h.ServeHTTP(w, r)
			var items []operator.ItemStatus
			if err := json.Unmarshal(w.Body.Bytes(), &items); err != nil || len(items) > 10 {
				t.Fatalf("%d: %v: %s", w.Code, err, w.Body)
			}
			for _, i := range items {
				if !want[i.ID] {
					t.Errorf("%q came twice, or is none", i.ID)
				}
				delete(want, i.ID)
			}
			next = ""
			if m := link.FindStringSubmatch(w.Header().Get("Link")); m != nil {
				next = m[1]
			}
		}
		if pages != 3 || len(want) > 0 {
			t.Errorf("%d pages, without %v", pages, want)
		}
	})
}

// What reads the log for all followers runs in nobody's request, where net/http would catch a
// panic.
func TestALogThatCannotBeReadEndsItsFollowersAndNotTheProcess(t *testing.T) {
	for what, broken := range map[string]func(){
		"panics":             func() { panic("an event that nobody can read") },
		"ends its goroutine": runtime.Goexit,
		"just ends":          func() {},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log aLog
				begun := 0
				s := showing(&fakeLooker{})
				s.follow = newFeed(func(ctx context.Context) iter.Seq[operator.EventLog] {
					return func(yield func(operator.EventLog) bool) {
						if begun++; begun > 1 {
							log.watch(ctx)(yield)
							return
						}
						time.Sleep(time.Second)
						broken()
					}
				}, 20)
				until, stuck := make(chan struct{}), make(chan struct{})
				go func() { // it keeps its place
					defer close(stuck)
					defer func() { _ = recover() }()
					r := httptest.NewRequest(http.MethodGet, "/v1/events?follow", nil)
					r.Host = "localhost"
					s.handler().ServeHTTP(stuckWriter{httptest.NewRecorder(), until}, r)
				}()
				synctest.Wait()
				ended := make(chan any)
				go func() {
					defer func() { ended <- recover() }()
					r := httptest.NewRequest(http.MethodGet, "/v1/events?follow", nil)
					r.Host = "localhost"
					s.handler().ServeHTTP(httptest.NewRecorder(), r)
				}()
				if p := <-ended; p == nil {
					t.Error("nobody is told that the stream has ended")
				}
				l := listen(t, s.handler(), "/v1/events?follow")
				synctest.Wait()
				if log.watching != 1 {
					t.Errorf("one who comes later: %d watch", log.watching)
				}
				l.end()
				close(until)
				<-stuck
			})
		})
	}
}
