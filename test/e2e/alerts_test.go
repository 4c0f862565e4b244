//go:build linux && coordd_long

package e2e_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/metrics"
	"github.com/coordd/coordd/actors/web"
	"github.com/coordd/coordd/internal/asynclog"
	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/coordd/coordd/test/e2e/realprometheus"
	"github.com/coordd/coordd/test/realconsul"
	"github.com/coordd/coordd/test/realserver"
	"github.com/coordd/coordd/test/relay"
)

const (
	alertsFile    = "../../docs/prometheus/alerts.yml"
	dashboardFile = "../../docs/prometheus/dashboard.json"
)

// impatient are the alert rules as they are shipped, but that they fire at once, look back for 4 s,
// and find a take-over slow that takes 2.5 s. The times themselves promtool replays
// (test/e2e/realprometheus).
func impatient(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(alertsFile)
	must(t, err)
	text := regexp.MustCompile(`(?m)^( +for:) \w+$`).ReplaceAllString(string(b), "$1 0s")
	text = regexp.MustCompile(`\[\d+[mh]\]`).ReplaceAllString(text, "[4s]")
	return strings.Replace(text, `le="30"`, `le="2.5"`, 1)
}

// watched is a service whose members a Prometheus scrapes.
type watched struct {
	*service
	*realprometheus.Server
	seen    *sync.Map // the alerts that were seen to fire and to clear, in all stories
	http    map[string]string
	targets int
}

// watch runs a Prometheus for the members named, which are not started yet, and for more targets.
func watch(t *testing.T, consul string, seen *sync.Map, ids []string, more ...string) *watched {
	t.Helper()
	w := &watched{service: newService(t, consul), seen: seen, http: map[string]string{}}
	ports, err := realserver.TakePorts()
	must(t, err)
	t.Cleanup(ports.Release)
	targets := more
	for i, id := range ids {
		if i == 4 {
			if ports, err = realserver.TakePorts(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(ports.Release)
		}
		w.http[id] = fmt.Sprintf("127.0.0.1:%d", ports.Base+i%4)
		targets = append(targets, w.http[id])
	}
	w.targets = len(targets)
	w.Server = realprometheus.Start(t, impatient(t), targets...)
	return w
}

func (w *watched) member(id string, flags ...string) *program {
	w.t.Helper()
	return w.start(id, append(flags, "--http", w.http[id])...)
}

// during does what makes alerts fire, sees them do so, ends it, and sees them clear.
func (w *watched) during(begin, end func(), alerts ...string) {
	w.t.Helper()
	begin()
	for _, alert := range alerts {
		w.Fired(workLimit, alert, w.selector(alert))
	}
	end()
	for _, alert := range alerts {
		took := w.Cleared(workLimit, alert, w.selector(alert))
		w.t.Logf("%s fired, and cleared %v after it was over", alert,
			took.Round(100*time.Millisecond))
		w.seen.Store(alert, true)
	}
}

func (w *watched) selector(alert string) string {
	if alert == "CoorddMemberDown" {
		return `job="coordd"`
	}
	return `service="` + w.name + `"`
}

// quiet waits until all targets have been scraped for as long as the rules look back, and no alert
// fires. Prometheus takes five seconds to find its targets.
func (w *watched) quiet() {
	w.t.Helper()
	testkit.Await(w.t, workLimit, "all are scraped and no alert fires", func() string {
		_, n, err := w.Value(`sum_over_time(up[1m]) > 18`)
		if n < w.targets || err != nil {
			return fmt.Sprintf("%d of %d were scraped (%v)", n, w.targets, err)
		}
		_, n, err = w.Value(`ALERTS{alertstate="firing",service="` + w.name + `"}`)
		if n > 0 || err != nil {
			return fmt.Sprintf("%d fire (%v)", n, err)
		}
		return ""
	})
}

func TestEachAlertFiresAndClearsOnARealCluster(t *testing.T) {
	t.Parallel()
	var seen sync.Map
	t.Run("stories", func(t *testing.T) {
		for name, story := range map[string]func(*testing.T, *sync.Map){
			"lost members": lostMembers, "Consul is away": consulIsAway,
			"orders and work":            ordersAndWork,
			"work that fails everywhere": workThatFails, "a host's own faults": hostsFaults,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				begin := time.Now()
				story(t, &seen)
				t.Logf("took %v", time.Since(begin).Round(100*time.Millisecond))
			})
		}
	})
	b, err := os.ReadFile(alertsFile)
	must(t, err)
	names := regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(b), -1)
	if len(names) < 10 {
		t.Errorf("%d alerts were found", len(names))
	}
	for _, name := range names {
		if _, ok := seen.Load(name[1]); !ok {
			t.Errorf("%s was not seen to fire and to clear", name[1])
		}
	}
}

// briefly are settings with which a loss is over in ten seconds.
var briefly = []string{"--lease", "3s", "--leader-soak", "1s"}

func lostMembers(t *testing.T, seen *sync.Map) {
	ids := []string{"n1", "n2", "n3", "n4", "n5"}
	w := watch(t, realconsul.Shared(t).Addr(), seen, ids)
	w.member("n1", briefly...)
	testkit.Await(t, startLimit, "n1 leads", func() string { return w.now().unlike(1, 0) })
	for _, id := range ids[1:] {
		w.member(id, briefly...)
	}
	testkit.Await(t, startLimit, "five members", func() string { return w.now().unlike(5, 0) })
	w.share(10)
	w.quiet()

	// A machine that does not answer any more, nor anybody on it.
	hang := func(s syscall.Signal, ids ...string) func() {
		return func() {
			for _, id := range ids {
				w.members[id].signal(s)
			}
		}
	}
	w.during(hang(syscall.SIGSTOP, "n5"), hang(syscall.SIGCONT, "n5"), "CoorddMemberDown",
		"CoorddItemsNotRunning", "CoorddTakeOverSlow")
	testkit.Await(t, workLimit, "five members", func() string { return w.now().unlike(5, 10) })
	w.during(hang(syscall.SIGSTOP, ids[1:]...), hang(syscall.SIGCONT, ids[1:]...), "CoorddBraked")
	w.shows()
}

// shows sees that each panel of the dashboard has had something to show.
func (w *watched) shows() {
	w.t.Helper()
	d := realprometheus.ReadDashboard(w.t, dashboardFile, w.name)
	for _, p := range d.Panels {
		series := 0
		for _, target := range p.Targets {
			_, n, err := w.Value("last_over_time((" + target.Expr + ")[1h:1s])")
			if err != nil {
				w.t.Errorf("panel %q: %v", p.Title, err)
			} else if n == 0 && !usuallyNothing.MatchString(target.Expr) {
				w.t.Errorf("panel %q shows nothing of %s", p.Title, target.Expr)
			}
			series += n
		}
		if p.Type != "row" && series == 0 {
			w.t.Errorf("panel %q shows nothing", p.Title)
		}
	}
}

// usuallyNothing are queries that find nothing where nothing fails, and where no command's output
// is copied.
var usuallyNothing = regexp.MustCompile(`coordd_actor_restarts|coordd_output_lost|result!="ok"`)

func consulIsAway(t *testing.T, seen *sync.Map) {
	consul := realconsul.Start(t, realconsul.Options{})
	ids := []string{"n1", "n2", "n3"}
	w := watch(t, consul.Addr(), seen, ids)
	for _, id := range ids {
		w.member(id, "--renew", "500ms")
	}
	testkit.Await(t, startLimit, "three members", func() string { return w.now().unlike(3, 0) })
	w.share(6)
	w.quiet()
	server := consul.Servers[0]
	freeze := func() {
		if server.Freeze() != nil {
			t.FailNow()
		}
	}
	thaw := func() {
		if server.Thaw() != nil {
			t.FailNow()
		}
		ready(t, consul)
	}
	// Slow: a renewal that was sent in the silence comes through after it.
	w.during(func() {
		freeze()
		await(t, time.Now().Add(2*time.Second)) // a fifth of the lease
		thaw()
	}, func() {}, "CoorddConsulSlow")
	w.during(freeze, thaw, "CoorddConsulFails", "CoorddLeaseLost", "CoorddNobodyLeads")
}

// misbehaving work has the item that loops, the one that does not stop, and those that do nothing.
const misbehaving = `
case $COORDD_ITEM in
loop*) exit 1;;
deaf*) trap '' TERM; echo >"$E2E_DIR/deaf";;
esac
while :; do read -r never; done <>"$E2E_HOLD"
`

func ordersAndWork(t *testing.T, seen *sync.Map) {
	consul := realconsul.Shared(t)
	w := watch(t, consul.Addr(), seen, []string{"n1", "n2", "n3"})
	dir := workDir(t)
	w.exec, w.env = misbehaving, []string{"E2E_DIR=" + dir}
	flags := []string{"--stop-timeout", "7s", "--leader-soak", "3s"}
	w.member("n1", flags...)
	w.member("n2", flags...)
	w.targets = 2 // for now
	testkit.Await(t, startLimit, "two members", func() string { return w.now().unlike(2, 0) })
	w.do("work", "add", "w1", "w2", "w3", "w4", "w5", "w6")
	testkit.Await(t, workLimit, "six items run", func() string { return w.now().unlike(2, 6) })

	w.quiet()
	w.during(func() { w.do("freeze") }, func() { w.do("thaw") },
		"CoorddFrozen")
	w.during(func() {
		w.do("pin", "w7", "nobody")
		w.do("work", "add", "w7", "loop")
	}, func() {
		w.do("unpin", "w7")
		w.do("work", "rm", "loop")
	}, "CoorddItemsUnplaced", "CoorddWorkRestarts")

	// One that has not reached Consul yet takes no part, and one more than there were is not in
	// balance for as long as the leader waits for quiet.
	way := relay.New(t, consul.Addr())
	set := func(mode relay.Mode) {
		must(t, way.Set(mode))
	}
	set(relay.Refuse)
	testkit.Await(t, workLimit, "two members", func() string { return w.now().unlike(2, 7) })
	w.during(func() {
		w.consul = way.Addr
		w.member("n3", flags...)
		w.consul = consul.Addr()
	}, func() { set(relay.Pass) }, "CoorddMemberNotRegistered")
	w.during(func() {}, func() {}, "CoorddImbalance")

	w.do("pin", "deaf", "n1")
	w.do("work", "add", "deaf")
	testkit.Await(t, workLimit, "the deaf item runs", func() string {
		if _, err := os.Stat(filepath.Join(dir, "deaf")); err != nil {
			return err.Error()
		}
		return ""
	})
	w.during(func() { w.do("pin", "deaf", "n2") }, func() {}, "CoorddWorkDoesNotStop")
}

func workThatFails(t *testing.T, seen *sync.Map) {
	w := watch(t, realconsul.Shared(t).Addr(), seen, []string{"n1", "n2"})
	w.exec = misbehaving
	w.member("n1", "--max-restarts", "2")
	w.member("n2", "--max-restarts", "2")
	testkit.Await(t, startLimit, "two members", func() string { return w.now().unlike(2, 0) })
	w.quiet()
	w.during(func() { w.do("work", "add", "loop") }, func() { w.do("work", "rm", "loop") },
		"CoorddItemsQuarantined")
}

// hostsFaults is a member in this process, whose host has faults of its own.
func hostsFaults(t *testing.T, seen *sync.Map) {
	consul := realconsul.Shared(t).Addr()
	var broken atomic.Bool // the host's transport panics, once
	client, err := api.NewClient(&api.Config{Address: consul, HttpClient: &http.Client{
		Transport: transport.Func(func(r *http.Request) (*http.Response, error) {
			if strings.HasPrefix(r.URL.Path, "/v1/kv/") && broken.CompareAndSwap(true, false) {
				panic("the host's transport")
			}
			return http.DefaultTransport.RoundTrip(r)
		})}})
	must(t, err)
	reader, writer := io.Pipe() // nobody reads, until somebody does
	defer reader.Close()
	log := asynclog.Wrap(slog.New(slog.NewTextHandler(writer, nil)))
	var page atomic.Pointer[http.Handler]
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if h := page.Load(); h != nil {
			(*h).ServeHTTP(rw, r)
		}
	}))
	defer server.Close()
	w := watch(t, consul, seen, nil, strings.TrimPrefix(server.URL, "http://"))
	m := metrics.New()
	member, err := actors.New(actors.Config{Host: actors.Host{Observer: m}, Service: w.name,
		ID: "host", Client: client,
		Logger: log})
	must(t, err)
	handler := web.New(member, web.Options{
		Metrics: metrics.Handler(m.Collector(member, metrics.Options{}))})
	page.Store(&handler)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- member.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	w.quiet()
	w.during(func() {
		broken.Store(true)
		w.do("work", "add", "w1") // its watch asks again
	}, func() {}, "CoorddActorRestarts")
	w.during(func() {
		for range 3000 {
			log.Info("many lines, and nobody reads them")
		}
	}, func() { go func() { _, _ = io.Copy(io.Discard, reader) }() }, "CoorddLogDropped")
}
