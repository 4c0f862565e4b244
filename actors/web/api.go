package web

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/coordd/coordd/actors/operator"
)

// openAPI describes all paths but the page, the configuration and the actions.
//
//go:embed openapi.json
var openAPI []byte

// The most items in one answer, and how many there are when the asker does not say.
const (
	maxItems     = 10_000
	defaultItems = 1000
)

// route is a path below /v1/, the parameters that it takes, and who answers.
type route struct {
	path   string
	params []string
	answer func(http.ResponseWriter, *http.Request, url.Values)
}

// routes are all paths below /v1/ but those of the actions.
func (s *site) routes() []route {
	read := func(from *viewCache, part func(*view) encoded) func(http.ResponseWriter,
		*http.Request, url.Values) {
		return func(w http.ResponseWriter, r *http.Request, _ url.Values) {
			v := from.look(r.Context())
			s.show(w, r, v, part(v))
		}
	}
	return []route{
		{"status", nil, read(s.status, func(v *view) encoded { return v.status })},
		{"members", nil, read(s.status, func(v *view) encoded { return v.members })},
		{"holders", nil, read(s.status, func(v *view) encoded { return v.holders })},
		{"tree", nil, read(s.reports, func(v *view) encoded { return v.body })},
		{"items", []string{"id", "member", "state", "limit", "after"}, s.items},
		{"items/{id}", nil, s.item},
		{"items/{id}/payload", nil, s.payload},
		{"events", []string{"about", "since", "after", "limit", "follow"}, s.events},
		{"plan", []string{"drain", "without", "add"}, s.plan},
		{"openapi.json", nil, func(w http.ResponseWriter, r *http.Request, _ url.Values) {
			encoded(openAPI).serve(w, r)
		}},
	}
}

// api adds the paths below /v1/.
func (s *site) api(mux *http.ServeMux) {
	for _, route := range s.routes() {
		mux.HandleFunc("GET /v1/"+route.path, func(w http.ResponseWriter, r *http.Request) {
			q, err := queryOf(r, route.params)
			if err != nil {
				refuse(w, http.StatusBadRequest, err)
				return
			}
			route.answer(w, r, q)
		})
	}
	mux.HandleFunc("GET /v1/", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotFound, errors.New("there is no such path: v1/openapi.json has all"))
	})
	mux.HandleFunc("/v1/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed, fmt.Errorf("%s: this path takes GET",
			quote(r.Method)))
	})
}

// lists are the parameters that may be repeated, and mayBeEmpty those that mean something without a
// value: /readyz is as Kubernetes' own servers have it, and the first page of a list comes after
// nothing.
var (
	lists      = []string{"id", "member", "state", "drain", "without", "exclude"}
	mayBeEmpty = []string{"after", "follow", "exclude", "verbose", "wait", "prefix"}
)

// queryOf reads a query that has these parameters at the most. A parameter that would mean nothing
// is refused: a script whose variable is empty would get another answer than it asked for.
func queryOf(r *http.Request, names []string) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("the query cannot be read: %w", err)
	}
	for name, values := range q {
		switch {
		case !slices.Contains(names, name):
		case len(values) > 1 && !slices.Contains(lists, name):
			return nil, fmt.Errorf("%s is given %d times: give it once", name, len(values))
		case !slices.Contains(mayBeEmpty, name) && slices.ContainsFunc(values, empty):
			return nil, fmt.Errorf("%s is empty: give a value, or leave it out", name)
		default:
			continue
		}
		if len(names) == 0 {
			return nil, fmt.Errorf("%s: this path takes no parameters", quote(name))
		}
		return nil, fmt.Errorf("%s: this path takes %s", quote(name), strings.Join(names, ", "))
	}
	return q, nil
}

// empty tells whether a value, or a list with commas, names nothing.
func empty(value string) bool { return strings.Trim(value, ",") == "" }

// list is a parameter that may be repeated, or have its values separated by commas.
func list(q url.Values, name string) (all []string) {
	for _, values := range q[name] {
		for value := range strings.SplitSeq(values, ",") {
			if value != "" {
				all = append(all, value)
			}
		}
	}
	return all
}

// number is a parameter of least to most; without it, otherwise.
func number(q url.Values, name string, least, most, otherwise uint64) (uint64, error) {
	text := q.Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s=%s: give a number from %d to %d", name, quote(text), least, most)
	}
	return n, nil
}

// items answers with those that are asked for, in the order of their ids. A link names the next
// ones.
func (s *site) items(w http.ResponseWriter, r *http.Request, q url.Values) {
	filter := operator.ItemFilter{IDs: q["id"], Members: list(q, "member")}
	for _, state := range list(q, "state") {
		if !slices.Contains(operator.ItemStates, operator.ItemState(state)) {
			refuse(w, http.StatusBadRequest, fmt.Errorf("state=%s: give some of %v", quote(state),
				operator.ItemStates))
			return
		}
		filter.States = append(filter.States, operator.ItemState(state))
	}
	limit, err := number(q, "limit", 1, maxItems, defaultItems)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	v := s.status.look(r.Context())
	s.send(w, r, v.err, func() any {
		found, after, match := []operator.ItemStatus{}, q.Get("after"), filter.Match()
		for _, i := range v.items {
			if i.ID <= after || !match(i) {
				continue
			}
			if len(found) == int(limit) {
				q.Set("after", found[len(found)-1].ID)
				w.Header().Set("Link", "<?"+q.Encode()+`>; rel="next"`)
				break
			}
			found = append(found, i)
		}
		return found
	})
}

// item explains one item.
func (s *site) item(w http.ResponseWriter, r *http.Request, _ url.Values) {
	id := r.PathValue("id")
	v := s.status.look(r.Context())
	n, found := slices.BinarySearchFunc(v.items, id, func(i operator.ItemStatus, id string) int {
		return strings.Compare(i.ID, id)
	})
	if v.err == nil && !found {
		refuse(w, http.StatusNotFound, fmt.Errorf("item %s: it is not in the workload", quote(id)))
		return
	}
	var e operator.Explanation
	if found {
		var log operator.EventLog
		if l := s.log.look(r.Context()); l.err == nil {
			log = l.events
		}
		e = v.items[n].Explained(log)
	}
	s.send(w, r, v.err, func() any { return e })
}

// payload answers with what the work of an item gets on standard input. It reads Consul.
func (s *site) payload(w http.ResponseWriter, r *http.Request, _ url.Values) {
	var item operator.WorkInput
	err := s.asking.take(r.Context())
	if err == nil {
		item, err = s.readItem(r.Context(), r.PathValue("id"))
		s.asking.give()
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	s.show(w, r, &view{err: err}, item.Payload)
}

// send sends a value that is made for the asker, or why there is none. Values are made in turns: a
// crowd that asks for long lists would take the processors and the memory.
func (s *site) send(w http.ResponseWriter, r *http.Request, err error, value func() any) {
	v := &view{err: err}
	if err == nil {
		v.body, v.err = s.made(r.Context(), value)
	}
	s.show(w, r, v, v.body)
}

func (s *site) made(ctx context.Context, value func() any) (encoded, error) {
	if err := s.turns.take(ctx); err != nil {
		return nil, err
	}
	defer s.turns.give()
	return json.Marshal(value())
}
