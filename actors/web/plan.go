package web

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/coordd/coordd/actors/operator"
)

const (
	planTimeout = time.Minute // for reading the whole workload and planning
	planAdded   = 1000        // members more, at the most
)

// plan answers what the leader would do. A plan takes a processor: one is made at a time.
func (s *site) plan(w http.ResponseWriter, r *http.Request, q url.Values) {
	add, err := number(q, "add", 0, planAdded, 0)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	what := operator.WhatIf{Drain: list(q, "drain"), Without: list(q, "without"), Add: int(add)}
	v := s.plans.lookFor(r.Context(), q.Encode(), func(ctx context.Context) *view {
		plan, err := s.planner(ctx, what)
		if err != nil {
			return &view{err: err}
		}
		v := &view{}
		v.body, v.err = json.Marshal(plan)
		return v
	})
	s.show(w, r, v, v.body)
}
