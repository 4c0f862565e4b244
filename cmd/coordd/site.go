package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/internal/printable"
	"github.com/coordd/coordd/messages"
	"github.com/coordd/coordd/supervisor"
)

//go:embed page.html
var page []byte

// site is what coordd shows over HTTP. It only reads, but for the configuration.
type site struct {
	glimpse *glimpse
	members []*actors.Coordinator // those of this process
	report  func() supervisor.Report
	config  *configstore.Store
	waits   int // requests that may wait for a change of the configuration at one time
	large   chan struct{}
}

// Each client that reads slowly holds the document that it reads, which is not the one of a second
// later: there are places for so many that read one of more than so many bytes.
const (
	largeDocument  = 256 << 10
	largeDocuments = 16
)

func newSite(look looker, consul string, members []*actors.Coordinator) *site {
	return &site{glimpse: newGlimpse(look, consul, members), members: members,
		config: configstore.None(), waits: pageConns / 2, large: make(chan struct{},
			largeDocuments)}
}

func (s *site) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		// Everything is in the page: it asks nobody but this address, and nothing else may run in
		// it.
		w.Header().Set("Content-Security-Policy",
			"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; frame-ancestors 'none'")
		_, _ = w.Write(page)
	})
	mux.HandleFunc("GET /status.json", func(w http.ResponseWriter, r *http.Request) {
		v := s.glimpse.look(r.Context())
		s.show(w, r, v, v.status)
	})
	mux.HandleFunc("GET /holders.json", func(w http.ResponseWriter, r *http.Request) {
		v := s.glimpse.look(r.Context())
		s.show(w, r, v, v.holders)
	})
	mux.HandleFunc("GET /report.json", func(w http.ResponseWriter, r *http.Request) {
		body, err := json.MarshalIndent(s.wholeReport(), "", "  ")
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		encoded(body).serve(w, r)
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if err := s.health(time.Now()); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, printable.Line(err.Error()))
			return
		}
		fmt.Fprintln(w, "ok")
	})
	config := newConfigSite(s.config, s.waits).handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// without --address a member publishes this page's
		if r.Header.Get(dispatch.HeaderItem) != "" {
			w.Header().Set(dispatch.HeaderReason, dispatch.ReasonNoAddress)
			http.Error(w,
				"this is the page of coordd, and no service: start the member with --address host:port of the service beside it",
				http.StatusBadGateway)
			return
		}
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Referrer-Policy", "no-referrer")
		if strings.HasPrefix(r.URL.Path, configPath) {
			// not by the mux, which redirects what it takes for an unclean path
			config.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// health tells why items may not run here now; nil: every member of this process holds its lease,
// and its record is locked by its session. It says nothing about the items, nor about who leads:
// status does. A member mends what it says by itself, so it is good for taking a host out of a
// balancer, and not for killing the process.
func (s *site) health(now time.Time) error {
	var errs []error
	for _, m := range s.members {
		switch session := m.Session().Get(); {
		case session.ID == "":
			errs = append(errs,
				fmt.Errorf("%s has no session in Consul: Consul does not answer, or has not yet",
					m.ID()))
		case !session.Holds(now, 0):
			over := -session.Lease.Left(now)
			errs = append(errs,
				fmt.Errorf("the lease of %s has been over for %v: Consul does not answer; its work is stopped",
					m.ID(), over.Round(time.Second)))
		default:
			switch ms := m.Membership().Get(); {
			case !ms.In(session.ID):
				errs = append(errs,
					fmt.Errorf("%s is not registered: its record in Consul is not locked by its session (%s): it runs nothing until then",
						m.ID(), ms.Phase))
			case ms.Phase == messages.Leaving:
				errs = append(errs, fmt.Errorf("%s is leaving: it gives its items up", m.ID()))
			}
		}
	}
	return errors.Join(errs...)
}

// wholeReport is the process's tree with the trees of its members, which have roots of their own,
// put in.
func (s *site) wholeReport() supervisor.Report {
	if s.report == nil {
		return supervisor.Report{}
	}
	trees := map[string]*actors.Coordinator{}
	for _, m := range s.members {
		trees[m.ID()] = m
	}
	root := s.report()
	var graft func(r *supervisor.Report)
	graft = func(r *supervisor.Report) {
		for i := range r.Children {
			child := &r.Children[i]
			m := trees[child.Name]
			if child.Name == coordinatorName && len(s.members) == 1 {
				m = s.members[0]
			}
			if m != nil {
				inner := m.Report()
				child.Strategy, child.Children = inner.Strategy, inner.Children
				continue
			}
			graft(child)
		}
	}
	graft(&root)
	return root
}

const coordinatorName = "coordinator"

// looker is what the site reads Consul with.
type looker interface {
	Look(ctx context.Context) (actors.Status, actors.Holders, error)
}

// glimpse reads Consul when someone looks, and at most once a second however
// many do; less often when the answers are so large that reading them takes long.
type glimpse struct {
	looker  looker
	consul  string
	members []*actors.Coordinator
	turn    chan struct{} // held by the one who reads

	mu   sync.Mutex
	last *view
}

func newGlimpse(l looker, consul string, members []*actors.Coordinator) *glimpse {
	return &glimpse{looker: l, consul: consul, members: members, turn: make(chan struct{}, 1)}
}

const (
	lookEvery   = time.Second
	lookTimeout = 5 * time.Second
	restFactor  = 4 // a read that took long is followed by a pause of that many times as long
)

// view is one reading, ready to be sent.
type view struct {
	fresh   time.Time // until when it is good
	err     error
	status  encoded
	holders encoded
}

func (g *glimpse) current() *view {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last != nil && time.Now().Before(g.last.fresh) {
		return g.last
	}
	return nil
}

func (g *glimpse) look(ctx context.Context) *view {
	if v := g.current(); v != nil {
		return v
	}
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-ctx.Done():
		return &view{err: ctx.Err()}
	}
	if v := g.current(); v != nil {
		return v
	}
	// Not the asker's context: others wait for the same answer.
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTimeout)
	defer cancel()
	begin := time.Now()
	v := g.read(own)
	v.fresh = begin.Add(lookEvery)
	if v.err == nil { // a failure is asked about again soon, however long it took
		v.fresh = begin.Add(max(lookEvery, restFactor*time.Since(begin)))
	}
	g.mu.Lock()
	g.last = v
	g.mu.Unlock()
	return v
}

func (g *glimpse) read(ctx context.Context) *view {
	status, holders, err := g.looker.Look(ctx)
	if err != nil {
		return &view{err: trouble(g.consul, err)}
	}
	for _, m := range g.members {
		if m.Leadership().Get().Role == messages.Leading {
			status.Brake = m.Plan().Get().Brake // it knows before Consul does
		}
	}
	v := &view{}
	if v.status, err = json.Marshal(status); err == nil {
		v.holders, err = json.Marshal(holders)
	}
	v.err = err
	return v
}

// show sends a body of v.
func (s *site) show(w http.ResponseWriter, r *http.Request, v *view, body encoded) {
	if len(body) > largeDocument {
		select {
		case s.large <- struct{}{}:
			defer func() { <-s.large }()
		default:
			w.Header().Set("Retry-After", "1")
			v = &view{err: fmt.Errorf(
				"%d clients are reading this, which is the limit: ask again soon", largeDocuments)}
		}
	}
	v.serve(w, r, body)
}

// serve sends a body of v, or why there is none.
func (v *view) serve(w http.ResponseWriter, r *http.Request, body encoded) {
	if v.err != nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": printable.Line(v.err.Error())})
		return
	}
	body.serve(w, r)
}

// encoded is a JSON document. One that the asker has already is not sent again.
type encoded []byte

func (e encoded) serve(w http.ResponseWriter, r *http.Request) {
	h := fnv.New64a()
	_, _ = h.Write(e)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("ETag", fmt.Sprintf(`"%x"`, h.Sum64()))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(e)) // with its conditions
}

var errNoAnswer = errors.New("it takes connections and says nothing in time")

// trouble turns an error of Consul's into one line that says what to do.
func trouble(consul string, err error) error {
	if !errors.Is(err, actors.ErrUnreachable) {
		return err
	}
	if errors.Is(err, actors.ErrTooManyConns) {
		return fmt.Errorf("Consul at %s refuses this connection (%w, 200 by default for all processes of a host): raise limits.http_max_conns_per_client of that Consul agent, or run less on this host",
			consul, actors.ErrTooManyConns)
	}
	why := err
	if op, ok := errors.AsType[*net.OpError](err); ok {
		why = op.Err
	} else if errors.Is(err, context.DeadlineExceeded) {
		why = errNoAnswer
	}
	return fmt.Errorf("Consul at %s does not answer (%w): start it, or give its address with --consul or CONSUL_HTTP_ADDR",
		consul, why)
}
