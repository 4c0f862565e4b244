package web

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/hashicorp/consul/api"
)

// Whoever renews the session waits behind every goroutine that could run. A crowd that asks for a
// large list must not be that many.
func TestACrowdThatAsksForListsLeavesTheProcessorsToTheSession(t *testing.T) {
	const crowd = 100
	var before []*api.KVPair
	for i := range 500 {
		before = append(before, &api.KVPair{
			Key:   fmt.Sprintf("service/demo/config_data/k%d", i),
			Value: []byte(strings.Repeat("<v>\n", 1<<10)),
		})
	}
	p := serveConfigPage(t, before...)
	// Nobody reads them in this process: what could run is the server's. Each is made until its
	// client's window is full.
	for range crowd {
		c, err := net.Dial("tcp", p.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_, _ = io.WriteString(c, "GET /config/ HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}
	if most := mostRunnable(t); most > crowd/4 {
		t.Errorf("for a tenth of the time %d goroutines or more could run, of %d that ask", most,
			crowd)
	}
}

// mostRunnable is how many goroutines can run for a tenth of the time at least, until there is
// nothing to do for a while.
func mostRunnable(t *testing.T) uint64 {
	t.Helper()
	sample := []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}}
	var runnable []uint64
	for idle := 0; idle < 50 && len(runnable) < 5000; time.Sleep(2 * time.Millisecond) {
		metrics.Read(sample)
		if n := sample[0].Value.Uint64(); n > 0 {
			runnable, idle = append(runnable, n), 0
		} else {
			idle++
		}
	}
	if len(runnable) == 0 {
		t.Fatal("it was over before it was looked at")
	}
	slices.Sort(runnable)
	return runnable[len(runnable)*9/10]
}

// thousands is a service of 10,000 items.
type thousands struct{ items []actors.ItemStatus }

func newThousands() *thousands {
	l := &thousands{}
	for i := range maxItems {
		l.items = append(l.items, actors.ItemStatus{ID: fmt.Sprintf("device_group_%05d", i),
			State: actors.ItemRunning, Member: "n1", Token: 1})
	}
	return l
}

func (l *thousands) Look(context.Context) (actors.Status, actors.Holders, []actors.ItemStatus,
	error) {
	return actors.Status{}, actors.Holders{}, l.items, nil
}

// Each of these answers is made for its asker.
func TestACrowdThatAsksForItemsLeavesTheProcessorsToTheSession(t *testing.T) {
	const crowd = 100
	server := httptest.NewServer(showing(newThousands()).handler())
	t.Cleanup(server.Close)
	for range crowd {
		c, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_, _ = io.WriteString(c, strings.Repeat(
			"GET /v1/items?limit=10000 HTTP/1.1\r\nHost: localhost\r\n\r\n", 10))
	}
	if most := mostRunnable(t); most > crowd/4 {
		t.Errorf("for a tenth of the time %d goroutines or more could run, of %d that ask", most,
			crowd)
	}
}

// An answer that there is no place for is not made: it would be held in memory for nothing.
func TestItemsThatThereIsNoPlaceForAreNotMade(t *testing.T) {
	s := showing(newThousands())
	for range largeDocuments {
		s.large <- struct{}{}
	}
	made := testing.AllocsPerRun(10, func() {
		if w := ask(s, "/v1/items?limit=10000"); w.Code != http.StatusServiceUnavailable ||
			w.Header().Get("Retry-After") == "" {
			t.Errorf("%d %.100s", w.Code, w.Body)
		}
	})
	if made > 2000 {
		t.Errorf("a refusal takes %v allocations", made)
	}
	if w := ask(s, "/v1/items?limit=10"); w.Code != http.StatusOK {
		t.Errorf("a few items: %d %s", w.Code, w.Body)
	}
}

// Half of the processors are for all lists together, whatever they are of.
func TestListsOfEachKindAreMadeInTurnsWithTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		consul := devconsul.New(devconsul.Config{NoJitter: true})
		t.Cleanup(consul.Close)
		s := showing(newThousands())
		s.config = loaded(t, consul.Client())
		for range cap(s.turns) {
			s.turns <- struct{}{} // those who ask for items have them
		}
		if w := ask(s, "/config/?wait=1s"); w.Code != http.StatusServiceUnavailable {
			t.Errorf("beside them a list of the configuration is made: %d %.60s", w.Code, w.Body)
		}
		<-s.turns
		if w := ask(s, "/config/?wait=1s"); w.Code != http.StatusOK {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}
