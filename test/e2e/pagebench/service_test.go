//go:build coordd_long

package pagebench_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coordd/coordd/actors/operator"
)

// service is a coordd that leads items of many members on paper: it answers what the page asks.
type service struct {
	page http.Handler

	mu      sync.Mutex
	owner   []int // by item; -1: free
	state   []operator.ItemState
	gone    map[int]bool
	drained map[int]bool
	index   uint64
	heard   []chan []operator.Event
	status  document
	holders document
}

// document is an answer and its tag.
type document struct {
	body []byte
	tag  string
}

func documentOf(v any) document {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(body)
	return document{body, `"` + hex.EncodeToString(sum[:8]) + `"`}
}

func newService(page http.Handler, members, items int) *service {
	s := &service{page: page, owner: make([]int, items), state: make([]operator.ItemState, items),
		gone: map[int]bool{}, drained: map[int]bool{}, index: 1}
	for i := range items {
		s.owner[i], s.state[i] = i%members+1, operator.ItemRunning
	}
	s.publish()
	return s
}

func item(i int) string   { return fmt.Sprintf("device_group_%06d", i) }
func member(m int) string { return fmt.Sprintf("n%d", m) }

// owned are the items of the members.
func (s *service) owned(members ...int) (items []int) {
	for i, m := range s.owner {
		if slices.Contains(members, m) {
			items = append(items, i)
		}
	}
	return items
}

// step changes something; the page reads it next.
func (s *service) step(change func(), events ...operator.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	s.publish()
	s.index++
	for i := range events {
		events[i].Index, events[i].Time, events[i].Leader = s.index, time.Now(), "n1"
	}
	for _, to := range s.heard {
		to <- events
	}
}

// moves are the events of items that go to others.
func (s *service) moves(why string, items []int, to func(n int) int) (all []operator.Event) {
	type way struct{ from, to int }
	by := map[way]int{}
	for n, i := range items {
		w := way{s.owner[i], to(n)}
		at, known := by[w]
		if !known {
			at = len(all)
			by[w] = at
			all = append(all, operator.Event{Kind: "granted", Why: why, From: member(w.from),
				To: member(w.to)})
		}
		all[at].Items = append(all[at].Items, item(i))
	}
	return all
}

// publish encodes what there is.
func (s *service) publish() {
	byMember := map[int]*operator.Holder{}
	var order []int
	for i, m := range s.owner {
		h := byMember[m]
		if h == nil {
			status := "alive"
			if s.gone[m] {
				status = operator.StatusGone
			}
			h = &operator.Holder{ID: member(m), Status: status, Own: []string{},
				Releasing: []string{}, States: map[operator.ItemState][]string{}}
			byMember[m] = h
			order = append(order, m)
		}
		switch state := s.state[i]; state {
		case operator.ItemStopping:
			h.Releasing = append(h.Releasing, item(i))
		default:
			h.Own = append(h.Own, item(i))
			if state != operator.ItemRunning {
				h.States[state] = append(h.States[state], item(i))
			}
		}
	}
	slices.Sort(order)
	holders := operator.Holders{Members: []operator.Holder{}, Free: []string{}}
	status := operator.Status{Service: "bench", Leader: &operator.StatusLeader{ID: "n1", Epoch: 7},
		Work: operator.StatusWork{Total: len(s.owner), Owned: len(s.owner),
			States: map[operator.ItemState]int{}}}
	for _, m := range order {
		h := byMember[m]
		holders.Members = append(holders.Members, *h)
		about := operator.StatusMember{ID: h.ID, Address: "10.0.0.1:7070", Status: h.Status,
			Items: len(h.Own) + len(h.Releasing), Releasing: len(h.Releasing),
			Drained: s.drained[m], Version: "1.0", Lease: 10_000,
			States: map[operator.ItemState]int{operator.ItemStopping: len(h.Releasing)}}
		running := len(h.Own)
		for state, items := range h.States {
			about.States[state] = len(items)
			running -= len(items)
		}
		about.States[operator.ItemRunning] = running
		for state, n := range about.States {
			status.Work.States[state] += n
		}
		if s.gone[m] {
			status.Absent = append(status.Absent, about)
			status.Problems = append(status.Problems, operator.Problem{Kind: "waiting",
				Text:  fmt.Sprintf("%d items wait: %s is gone", len(h.Own), h.ID),
				Until: time.Now().Add(10 * time.Second), Items: h.Own[:1]})
		} else {
			status.Members = append(status.Members, about)
		}
	}
	for m := range s.drained {
		status.Drained = append(status.Drained, member(m))
	}
	slices.Sort(status.Drained)
	s.status, s.holders = documentOf(status), documentOf(holders)
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/v1/status", "/v1/holders":
		s.mu.Lock()
		d := s.status
		if r.URL.Path == "/v1/holders" {
			d = s.holders
		}
		s.mu.Unlock()
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("ETag", d.tag)
		if r.Header.Get("If-None-Match") == d.tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(d.body)
	case "/v1/events":
		if !r.URL.Query().Has("follow") {
			_, _ = w.Write([]byte("[]"))
			return
		}
		s.follow(w, r)
	default:
		s.page.ServeHTTP(w, r)
	}
}

func (s *service) follow(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w).Flush
	events := make(chan []operator.Event, 100)
	s.mu.Lock()
	s.heard = append(s.heard, events)
	s.mu.Unlock()
	_ = flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case all := <-events:
			for _, e := range all {
				data, _ := json.Marshal(e)
				fmt.Fprintf(w, "data: %s\n\n", data)
			}
			_ = flush()
		}
	}
}
