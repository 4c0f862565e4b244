// Package model explores models of coordd's protocol: every state that can be reached within a
// bound, breadth first, so that the story of a breach is as short as any.
//
// States are kept as 64-bit hashes. With ten million states the chance that any two share one, and
// so that one is taken for seen, is below one in 300,000; each process has its own hash function.
package model

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"
)

// Step says which of the steps that were possible in a state was taken. Its meaning is the model's.
type Step struct{ Verb, Who, What uint8 }

// System is a model: where it begins, what can happen next, and what must never be. A state is a
// plain value without pointers. Next must give the same steps in the same order each time.
type System[S comparable] struct {
	Init   S
	Next   func(s *S, emit func(Step, *S))
	Breach func(*S) string // empty: nothing is wrong
	Tell   func(Step, *S, *S) string
}

// Only is the system with an eye for these breaches and no others; for all if none is named.
func (m System[S]) Only(breaches ...string) System[S] {
	if look := m.Breach; len(breaches) > 0 {
		m.Breach = func(s *S) string {
			if b := look(s); slices.Contains(breaches, b) {
				return b
			}
			return ""
		}
	}
	return m
}

// Result is what an exploration found.
type Result struct {
	States int      // that can be reached and differ
	Steps  int      // from one of them to another
	Depth  int      // of the longest shortest way to one of them, in steps
	Breach string   // empty: none of the states is wrong
	Story  []string // the shortest way to the breach, a line for each step
	Taken  [256]int // how often each verb was taken
	Whole  bool     // everything was explored: no limit was met, no breach was found
	Took   time.Duration
}

func (r Result) String() string {
	took := r.Took.Round(10 * time.Millisecond)
	return fmt.Sprintf("%d states, %d steps, depth %d, %v", r.States, r.Steps, r.Depth, took)
}

// Lines is the story, numbered.
func (r Result) Lines() string {
	var b strings.Builder
	for i, line := range r.Story {
		fmt.Fprintf(&b, "\n    %2d  %s", i+1, line)
	}
	fmt.Fprintf(&b, "\n        %s", r.Breach)
	return b.String()
}

// node is how a state was reached first.
type node struct {
	parent uint32
	choice uint16 // which of the parent's steps
}

type waiting[S comparable] struct {
	state S
	node  uint32
}

// Explore visits all states, or as many as limit (0: no limit), until it finds a breach.
func Explore[S comparable](m System[S], limit int) Result {
	begin := time.Now()
	e := explorer[S]{System: m, seen: newSet(), seed: maphash.MakeSeed()}
	e.reach(&m.Init, 0, 0)
	for len(e.next) > 0 && e.Result.Breach == "" && (limit == 0 || e.States < limit) {
		now := e.next
		e.next = make([]waiting[S], 0, len(now))
		for i := range now {
			if e.visit(&now[i]); e.Result.Breach != "" {
				break
			}
		}
		if len(e.next) > 0 {
			e.Depth++
		}
	}
	e.Whole = len(e.next) == 0 && e.Result.Breach == ""
	e.Took = time.Since(begin)
	return e.Result
}

type explorer[S comparable] struct {
	System[S]
	Result
	seen  *set
	seed  maphash.Seed
	nodes []node
	next  []waiting[S]
}

func (e *explorer[S]) visit(w *waiting[S]) {
	choice := uint16(0)
	e.Next(&w.state, func(step Step, s *S) {
		e.Steps++
		e.Taken[step.Verb]++
		e.reach(s, w.node, choice)
		choice++
	})
}

func (e *explorer[S]) reach(s *S, parent uint32, choice uint16) {
	if e.Result.Breach != "" || !e.seen.add(maphash.Comparable(e.seed, *s)) {
		return
	}
	e.States++
	id := uint32(len(e.nodes))
	e.nodes = append(e.nodes, node{parent, choice})
	e.next = append(e.next, waiting[S]{*s, id})
	if e.Result.Breach = e.System.Breach(s); e.Result.Breach != "" {
		e.Story = e.story(id)
	}
}

// story walks from the beginning to a node again.
func (e *explorer[S]) story(id uint32) []string {
	var choices []uint16
	for ; id != 0; id = e.nodes[id].parent {
		choices = append(choices, e.nodes[id].choice)
	}
	at, lines := e.Init, []string{}
	for i := len(choices) - 1; i >= 0; i-- {
		choice, after := uint16(0), at
		e.Next(&at, func(step Step, s *S) {
			if choice == choices[i] {
				after = *s
				lines = append(lines, e.Tell(step, &at, s))
			}
			choice++
		})
		at = after
	}
	return lines
}

// set is a hash set of hashes: open addressing, half empty.
type set struct {
	slots []uint64
	n     int
}

func newSet() *set { return &set{slots: make([]uint64, 1<<12)} }

// add reports whether h is new.
func (t *set) add(h uint64) bool {
	if h == 0 {
		h = 1
	}
	if 2*t.n >= len(t.slots) {
		old := t.slots
		t.slots = make([]uint64, 2*len(old))
		for _, h := range old {
			if h != 0 {
				t.slots[t.find(h)] = h
			}
		}
	}
	i := t.find(h)
	if t.slots[i] == h {
		return false
	}
	t.slots[i] = h
	t.n++
	return true
}

func (t *set) find(h uint64) uint64 {
	mask := uint64(len(t.slots) - 1)
	i := h & mask
	for t.slots[i] != 0 && t.slots[i] != h {
		i = (i + 1) & mask
	}
	return i
}
