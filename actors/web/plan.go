package web

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/coordd/coordd/actors/operator"
)

// planner plans for one asker at a time: a plan reads the whole workload and takes a processor.
type planner struct {
	plan func(context.Context, operator.WhatIf) (operator.Plan, error)
	turn chan struct{} // held by the one who plans

	// The last plan: guarded by turn.
	last  *view
	query string // that it answers
}

const (
	planTimeout = time.Minute // for reading and planning
	planAdded   = 1000        // members more, at the most
)

func newPlanner(op *operator.Client) *planner {
	return &planner{plan: op.Plan, turn: make(chan struct{}, 1)}
}

func (p *planner) look(ctx context.Context, what operator.WhatIf, query string) (*view, error) {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if p.last != nil && p.query == query && time.Now().Before(p.last.fresh) {
		return p.last, nil
	}
	ctx, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	plan, err := p.plan(ctx, what)
	if err != nil {
		return nil, err
	}
	v := &view{fresh: time.Now().Add(lookEvery)}
	if v.body, err = json.Marshal(plan); err != nil {
		return nil, err
	}
	p.last, p.query = v, query
	return v, nil
}

// plan answers what the leader would do.
func (s *site) plan(w http.ResponseWriter, r *http.Request, q url.Values) {
	add, err := number(q, "add", 0, planAdded, 0)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	v, err := s.planner.look(r.Context(), operator.WhatIf{Drain: list(q, "drain"),
		Without: list(q, "without"), Add: int(add)}, q.Encode())
	if err != nil {
		s.fail(w, err)
		return
	}
	s.show(w, r, v, v.body)
}
