//go:build linux

package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/realconsul"
)

// routed is a service whose members route and have services beside them, and clients that ask all
// the time.
type routed struct {
	*service
	backends  []*backend
	at        map[string]*backend // by member
	transport *http.Transport

	mu      sync.Mutex
	routes  map[string]string // member -> address of its route
	results []result
}

// result is what came of one request.
type result struct {
	item, order, via string
	began, ended     time.Time
	status           int
	reason, body     string
	err              error // the way to the route broke
}

func newRouted(t *testing.T) *routed {
	r := &routed{service: newService(t, realconsul.Shared(t).Addr()), at: map[string]*backend{},
		routes: map[string]string{}, transport: &http.Transport{MaxIdleConnsPerHost: 32}}
	r.exec = routedWork
	if strings.Count(r.exec, "E2E_OWNED") != 2 {
		t.Fatal("the work does not say what it owns")
	}
	t.Cleanup(r.transport.CloseIdleConnections)
	return r
}

var noService = regexp.MustCompile("cannot be connected to at |was lost before it answered")

var routesAt = regexp.MustCompile(`msg=starting .* route=(127\.0\.0\.1:[0-9]+)`)

// join starts a member with a service beside it.
func (r *routed) join(id string) {
	r.t.Helper()
	b := serveBackend(r.t)
	r.backends, r.at[id] = append(r.backends, b), b
	p := launch(r.t, []string{"E2E_JOURNAL=" + r.journal, "E2E_HOLD=" + hold, "E2E_OWNED=" + b.dir},
		"run", "--service", r.name, "--consul", r.consul, "--id", id, "--exec", r.exec, "--address",
		b.address, "--route", "127.0.0.1:0", "--route-wait", "20s")
	r.members[id] = p
	testkit.Await(r.t, startLimit, "it says where it routes", func() string {
		m := routesAt.FindStringSubmatch(p.stderr())
		if m == nil {
			return "not yet: " + p.stderr()
		}
		r.mu.Lock()
		r.routes[id] = m[1]
		r.mu.Unlock()
		return ""
	})
}

// leaveOut has the clients ask the others only.
func (r *routed) leaveOut(id string) {
	r.mu.Lock()
	delete(r.routes, id)
	r.mu.Unlock()
}

// ask sends one request for item by way of any route.
func (r *routed) ask(client *http.Client, item, order string, rng *rand.Rand) {
	r.mu.Lock()
	ids := slices.Sorted(maps.Keys(r.routes))
	via := ids[rng.IntN(len(ids))]
	address := r.routes[via]
	r.mu.Unlock()
	res := result{item: item, order: order, via: via, began: time.Now()}
	method, body := http.MethodGet, io.Reader(nil)
	if order != "" {
		method, body = http.MethodPost, strings.NewReader(order)
	}
	req, err := http.NewRequest(method, "http://"+address+"/"+item+"/some/path?q=1", body)
	if err != nil {
		panic(err)
	}
	resp, err := client.Do(req)
	if err == nil {
		var b []byte
		b, err = io.ReadAll(resp.Body)
		resp.Body.Close()
		res.status, res.reason, res.body = resp.StatusCode, resp.Header.Get("Coordd-Reason"),
			string(b)
	}
	res.ended, res.err = time.Now(), err
	r.mu.Lock()
	r.results = append(r.results, res)
	r.mu.Unlock()
}

// clients ask for items until the func that is returned is called.
func (r *routed) clients(n int, items []string) (stop func()) {
	done := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 0))
			client := &http.Client{Transport: r.transport, Timeout: 3 * time.Minute}
			for k := 0; ; k++ {
				select {
				case <-done:
					return
				case <-time.After(time.Duration(rng.IntN(10)) * time.Millisecond):
				}
				order := ""
				if rng.IntN(2) == 0 {
					order = fmt.Sprintf("order-%d-%d", i, k)
				}
				r.ask(client, items[rng.IntN(len(items))], order, rng)
			}
		})
	}
	return func() {
		close(done)
		all.Wait()
	}
}

// served waits until each item has been answered for by a request that began from now on.
func (r *routed) served(items []string) {
	r.t.Helper()
	from := time.Now()
	testkit.Await(r.t, takeover+workLimit, "each item is served", func() string {
		left := map[string]bool{}
		for _, item := range items {
			left[item] = true
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, res := range r.results {
			if res.status == http.StatusOK && res.began.After(from) {
				delete(left, res.item)
			}
		}
		if len(left) > 0 {
			return fmt.Sprintf("%d are not", len(left))
		}
		return ""
	})
}

// judge goes through all that was answered. It returns how often each status came.
func (r *routed) judge() map[string]int {
	r.t.Helper()
	const slack = 20 * time.Second // for lines that wait in the pipe
	tally, done := map[string]int{}, map[string]int{}
	for _, b := range r.backends {
		for _, order := range b.orders() {
			done[order]++
		}
	}
	times := map[string][]time.Time{} // of an item with a grant at a member: start and stop
	for _, e := range r.since(0) {
		key := fmt.Sprintf("%s %d %s", e.item, e.token/facts.Runs, e.member)
		times[key] = append(times[key], e.at)
	}
	for _, res := range r.results {
		switch {
		case res.err != nil:
			tally["way to the route broke"]++
			continue
		case res.status == http.StatusOK:
			tally["200"]++
		case (res.status == 502 || res.status == 503) && res.reason != "":
			tally[fmt.Sprint(res.status, " ", res.reason)]++
			continue
		default:
			r.t.Errorf("a request for %s by way of %s: %d %q %s", res.item, res.via, res.status,
				res.reason, res.body)
			continue
		}
		at := times[res.body]
		if !strings.HasPrefix(res.body, res.item+" ") || len(at) == 0 ||
			at[0].After(res.ended.Add(slack)) ||
			(len(at) == 2 && at[1].Before(res.began.Add(-slack))) {
			r.t.Errorf("a request for %s from %v to %v was served by %q, which worked on it at %v",
				res.item, res.began, res.ended, res.body, at)
		}
		if res.order != "" && done[res.order] != 1 {
			r.t.Errorf("%s was answered for and carried out %d times", res.order, done[res.order])
		}
	}
	for order, n := range done {
		if n > 1 {
			r.t.Errorf("%s was carried out %d times", order, n)
		}
	}
	return tally
}

func TestEveryRequestIsServedByTheItemsOwnerOrRefused(t *testing.T) {
	t.Parallel()
	r := newRouted(t)
	for _, id := range []string{"n1", "n2", "n3"} {
		r.join(id)
	}
	items := r.share(30)
	stop := r.clients(8, items)
	r.served(items)

	// A clean stop: whoever asks elsewhere notices nothing but a wait, or on a machine that is slow
	// enough a 503.
	r.leaveOut("n2")
	r.mu.Lock()
	began := len(r.results)
	r.mu.Unlock()
	r.members["n2"].signal(syscall.SIGTERM)
	if code, _ := r.members["n2"].ends(workLimit); code != 0 {
		t.Errorf("n2 ended with code %d", code)
	}
	r.served(items)
	r.mu.Lock()
	for _, res := range r.results[began:] {
		if res.via != "n2" && res.status != http.StatusOK &&
			res.status != http.StatusServiceUnavailable {
			t.Errorf("while n2 stopped, a request for %s by way of %s: %d %s %v", res.item, res.via,
				res.status, res.body, res.err)
		}
	}
	r.mu.Unlock()

	r.join("n4")
	r.served(items)

	// A machine dies, the service with it.
	r.leaveOut("n1")
	r.at["n1"].Kill()
	r.members["n1"].Kill()
	r.served(items)
	r.join("n1")
	r.served(items)
	testkit.Await(t, workLimit, "every member has its share", func() string {
		return r.now().unlike(3, len(items))
	})
	r.served(items)

	// All are asked at once, one of them without its service.
	r.at["n4"].Kill()
	resp, err := (&http.Client{Transport: r.transport, Timeout: workLimit}).Get("http://" +
		r.routes["n1"] + "/*/")
	must(t, err)
	defer resp.Body.Close()
	var all struct {
		Answers map[string]struct{ Body string }
		Missing map[string]string
	}
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil ||
		resp.StatusCode != http.StatusMultiStatus ||
		all.Answers["n1"].Body != "n1" || all.Answers["n3"].Body != "n3" || len(all.Answers) != 2 ||
		!noService.MatchString(all.Missing["n4"]) {
		t.Errorf("%s: %+v, %v", resp.Status, all, err)
	}
	stop()
	tally := r.judge()
	t.Logf("%d requests: %v", len(r.results), tally)
	if tally["200"] < 100 {
		t.Errorf("only %d requests were answered", tally["200"])
	}
	stdout, stderr, code := once(t, "locate", items[0], "--service", r.name, "--consul", r.consul)
	r.service.mu.Lock()
	own := r.ledger.running[items[0]]
	r.service.mu.Unlock()
	if want := fmt.Sprintf("%s\t%s\t%d\n", own.member, r.at[own.member].address,
		own.token/facts.Runs); code != 0 || stdout != want {
		t.Errorf("locate: %q %q (%d), want %q", stdout, stderr, code, want)
	}
}
