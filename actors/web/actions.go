package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/coordd/coordd/actors/operator"
)

// Actions are what a host lets those do with members who reach the handler, such as the trials of
// `coordd dev`. The page shows them as buttons in the members' rows.
type Actions interface {
	// Offered lists the members with what may be done with each now, when the service is as the
	// status says. A member that is not registered may be among them: it has a row then.
	Offered(now operator.Status) []MemberActions
	// Do carries out an action that was offered a moment ago, and returns when it is done. The
	// error is the answer.
	Do(ctx context.Context, member, action string) error
}

// MemberActions are what may be done with one member now.
type MemberActions struct {
	Member  string   `json:"member"`
	State   string   `json:"state,omitempty"` // what was done with it, such as frozen
	Actions []Action `json:"actions"`
}

// Action is something that may be done with a member: a button in its row.
type Action struct {
	Name  string `json:"name"`  // in the path, such as cut-off
	Label string `json:"label"` // on the button, such as Cut off
	Hint  string `json:"hint"`  // what it does, in a sentence
}

// offer adds the paths of the actions:
//
//	GET   /v1/actions                           list of MemberActions
//	POST  /v1/members/MEMBER/actions/ACTION     carries one out: 204, or an error
func (s *site) offer(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/actions", func(w http.ResponseWriter, r *http.Request) {
		v := s.status.look(r.Context())
		s.send(w, r, v.err, func() any { return s.Actions.Offered(v.now) })
	})
	// A browser's page of another origin must not press a button.
	own := http.NewCrossOriginProtection()
	own.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusForbidden, errors.New("a page of another origin asks for this"))
	}))
	mux.Handle("POST /v1/members/{member}/actions/{action}", own.Handler(http.HandlerFunc(s.act)))
}

// act carries out an action if it is offered now.
func (s *site) act(w http.ResponseWriter, r *http.Request) {
	member, action := r.PathValue("member"), r.PathValue("action")
	v := s.status.look(r.Context())
	if v.err != nil {
		s.fail(w, v.err)
		return
	}
	offered := s.Actions.Offered(v.now)
	of := slices.IndexFunc(offered, func(m MemberActions) bool { return m.Member == member })
	if of < 0 {
		refuse(w, http.StatusNotFound, fmt.Errorf(
			"member %s: nothing may be done with it here: v1/actions lists the members",
			quote(member)))
		return
	}
	if !slices.ContainsFunc(offered[of].Actions, func(a Action) bool { return a.Name == action }) {
		refuse(w, http.StatusConflict, errors.New(
			quote(action)+": it is not offered for "+member+" now: v1/actions lists what is"))
		return
	}
	if err := s.Actions.Do(r.Context(), member, action); err != nil {
		refuse(w, http.StatusServiceUnavailable, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
