package web

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/internal/httpserver"
	"github.com/coordd/coordd/internal/printable"
	"github.com/coordd/coordd/internal/words"
	"github.com/coordd/coordd/supervisor"
)

// Pace is how long a client may take for each 64 KiB of an answer, and rest within a body.
const Pace = 10 * time.Second

// Options are settings of [New]. The zero value is usable.
type Options struct {
	// Members are further members of this process. Their health and actors are shown as well.
	Members []*actors.Coordinator
	// Report is the supervision tree of the process. A child that is named after a member, or
	// "coordinator" if there is only one, is shown with the member's tree below it. Default:
	// the members' alone.
	Report func() supervisor.Report
	// Hosts are more names, NAME or NAME:PORT, that the handler may be asked for by.
	Hosts []string
	// HostsFlag is what a refusal names as the setting that allows another name. Default:
	// web.Options.Hosts.
	HostsFlag string
	// Token is what every request must bring but those for /healthz and /readyz, which without it
	// get the status and no reasons: as "Authorization: Bearer TOKEN", or as the password of HTTP
	// Basic, with any user. Others get 401. Default: no token is asked for.
	Token string
	// TokenNow returns the token of the moment, in place of Token. Default: Token stays.
	TokenNow func() string
	// ConfigWaits is the most requests that may wait for a change of the configuration at one time.
	// Default: 128.
	ConfigWaits int
	// Metrics answers GET /metrics, under the same rules as all else: metrics.Handler of package
	// actors/metrics does. Default: there is no such path.
	Metrics http.Handler
	// Pprof answers GET /debug/pprof/ and what is below it, under the same rules: package
	// net/http/pprof does. Default: there are no such paths.
	Pprof http.Handler
	// Followers is the most clients that may follow the events at one time. Default: 64.
	Followers int
	// Stopping ends the streams of events when it is closed, such as the Done of the service's
	// context: http.Server.Shutdown would wait for them. Default: they end with their clients.
	Stopping <-chan struct{}
	// Actions are offered at /v1/actions, and as buttons on the page. Default: there are none, and
	// no such paths.
	Actions Actions
	// Explain turns an error of a read of Consul into the one that is shown. Default: as it is.
	Explain func(error) error
}

// New returns the handler for a member, which need not run yet. One handler serves any number of
// paths and servers, and its limits hold for all of them together.
func New(c *actors.Coordinator, o Options) http.Handler {
	s := c.Settings()
	op, err := operator.New(s.Client, s.Service)
	if err != nil {
		panic("web: the settings of a member are refused: " + err.Error()) // actors.New took them
	}
	o.Members = append([]*actors.Coordinator{c}, o.Members...)
	site := siteOf(op, o)
	site.config = c.ConfigStore()
	return site.limited(o)
}

// NewObserver is New for a process that is no member itself and watches a service through op: what
// is served of a member is that of Options.Members, if there are any, and there is no
// configuration. Without members /healthz and /readyz say that all is well.
func NewObserver(op *operator.Client, o Options) http.Handler { return siteOf(op, o).limited(o) }

// siteOf is the site of a service that shows what o says.
func siteOf(op *operator.Client, o Options) *site {
	site := newSite(newStatusCache(op, o.Members), o)
	site.log, site.planner, site.readItem = newEventLog(op), op.Plan, op.ReadWork
	site.follow = newFeed(op.FollowEventLog, cmp.Or(max(0, o.Followers), defaultFollowers))
	return site
}

// site is what is shown over HTTP. It only reads, but for the configuration and the actions.
type site struct {
	Options
	status   *viewCache
	reports  *viewCache
	own      *viewCache // what they do
	config   *configstore.Store
	log      *viewCache
	follow   *feed
	plans    *viewCache
	planner  func(context.Context, operator.WhatIf) (operator.Plan, error)
	readItem func(ctx context.Context, id string) (operator.WorkInput, error)
	large    turns // of large documents that are read
	turns    turns // of answers that are made for one asker
	asking   turns // of reads of Consul for one asker
}

// Each client that reads slowly holds the document that it reads, which is not the one of a second
// later: there are places for so many that read one of more than so many bytes.
const (
	largeDocument  = 256 << 10
	largeDocuments = 16
)

func newSite(status *viewCache, o Options) *site {
	s := &site{Options: o, status: status, config: configstore.None(),
		large: make(turns, largeDocuments), turns: newTurns(), asking: make(turns, consulReads),
		plans: newViewCache(nil)}
	s.plans.most = planTimeout
	// A member goes through all of its items for that: 50 ms of a processor with 20,000.
	s.own = newViewCache(func(context.Context) *view {
		v := &view{}
		for _, m := range s.Members {
			v.own = append(v.own, m.OwnItems())
		}
		return v
	})
	s.reports = newViewCache(func(context.Context) *view {
		v := &view{}
		v.body, v.err = json.MarshalIndent(s.wholeReport(), "", "  ")
		return v
	})
	return s
}

// limited answers only for the names of o, and only clients that keep up.
func (s *site) limited(o Options) http.Handler {
	if o.HostsFlag == "" {
		o.HostsFlag = "web.Options.Hosts"
	}
	hosts := httpserver.NewHosts(o.HostsFlag, o.Hosts...)
	return httpserver.Paced(noService(hosts.Only(s.handler(), nil)), Pace)
}

// noService answers a dispatcher, which sends a request for an item here where its member publishes
// this page's address for want of another one. It has no token, and asks by the name that its
// client has asked it for.
func noService(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(dispatch.HeaderItem) == "" {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set(dispatch.HeaderReason, dispatch.ReasonNoAddress)
		http.Error(w,
			"this is the page of coordd, and no service: start the member with "+
				words.Setting("Config.Address")+" host:port of the service beside it",
			http.StatusBadGateway)
	})
}

func (s *site) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", pagePolicy)
		if s.Actions != nil {
			_, _ = w.Write(actingPage)
			return
		}
		_, _ = w.Write(page)
	})
	s.api(mux)
	if s.Actions != nil {
		s.offer(mux)
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if err := s.reasonFor(r, s.health(time.Now())); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, printable.Line(err.Error()))
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /readyz", s.ready)
	if s.Metrics != nil {
		mux.Handle("GET /metrics", s.Metrics)
	}
	if s.Pprof != nil {
		mux.Handle("GET /debug/pprof/", s.Pprof)
	}
	config := newConfigSite(s.config, cmp.Or(max(0, s.ConfigWaits), 128)).handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Referrer-Policy", "no-referrer")
		if !open(r) && !s.admitted(r) {
			askForToken(w, r)
			return
		}
		if strings.HasPrefix(r.URL.Path, configPath) {
			// not by the mux, which redirects what it takes for an unclean path
			config.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}
