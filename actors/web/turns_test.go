package web

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/hashicorp/consul/api"
)

// heldReader is a client that takes a piece when it is told to.
type heldReader struct {
	pieces
	takes chan struct{}
}

func (h *heldReader) Write(b []byte) (int, error) {
	<-h.takes
	return h.pieces.Write(b)
}

// crowd are clients that ask for the same at one time.
type crowd []*heldReader

func (c crowd) bytes() (all int64) {
	for _, client := range c {
		all += client.all.Load()
	}
	return all
}

// asksFor has so many clients ask, and returns them with what waits for the last answer.
func asksFor(t *testing.T, n int, h http.Handler, path string,
	takes chan struct{}) (crowd, func()) {
	var asked sync.WaitGroup
	all := make(crowd, n)
	for i := range all {
		all[i] = &heldReader{pieces{header: http.Header{}}, takes}
		asked.Go(func() {
			h.ServeHTTP(all[i], httptest.NewRequestWithContext(t.Context(), http.MethodGet, path,
				nil))
		})
	}
	return all, asked.Wait
}

// made is how much memory what is done takes, until all that is left waits.
func made(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	synctest.Wait()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Whoever renews the session waits behind every goroutine that could run. A crowd that asks for a
// large list must not be that many: nothing of a list is made without a turn, neither its beginning
// nor what comes behind a piece, and no client holds a turn while it takes a piece.
func TestACrowdThatAsksForListsLeavesTheProcessorsToTheSession(t *testing.T) {
	if most := max(1, runtime.GOMAXPROCS(0)/2); cap(newTurns()) != most {
		t.Errorf("there are %d turns, not %d", cap(newTurns()), most)
	}
	synctest.Test(t, func(t *testing.T) {
		consul := devconsul.New(devconsul.Config{NoJitter: true})
		t.Cleanup(consul.Close)
		for i := range 100 {
			if _, err := consul.Client().KV().Put(&api.KVPair{
				Key:   fmt.Sprintf("service/demo/config_data/k%d", i),
				Value: []byte(strings.Repeat("<v>\n", 1<<10)),
			}, nil); err != nil {
				t.Fatal(err)
			}
		}
		const clients, little = 100, 100 * 32 << 10 // a list is 1.5 MB
		s := showing(&fakeLooker{})
		s.config = loaded(t, consul.Client())
		time.Sleep(5 * time.Second)
		if _, cached := s.config.Cached(); !cached {
			t.Fatal("each has to ask Consul")
		}
		hold := func() {
			for range cap(s.turns) {
				s.turns <- struct{}{}
			}
		}
		give := func() {
			for range cap(s.turns) {
				<-s.turns
			}
		}
		hold()
		takes := make(chan struct{})
		var all crowd
		var wait func()
		if n := made(func() {
			all, wait = asksFor(t, clients, s.handler(), "/config/?wait=5m", takes)
		}); n > little || all.bytes() > 0 {
			t.Errorf("while others have all turns %d bytes came, and making took %d",
				all.bytes(), n)
		}
		give()
		synctest.Wait() // each client has a piece to take
		if n := len(s.turns); n > 0 {
			close(takes)
			wait()
			t.Fatalf("clients hold %d turns while they take a piece", n)
		}
		hold()
		if n := made(func() {
			for range 3 * clients {
				select {
				case takes <- struct{}{}:
				default: // nobody has another piece
				}
				synctest.Wait()
			}
		}); n > little || all.bytes() > clients*listPiece {
			t.Errorf("behind the first pieces %d bytes came without a turn, and making took %d",
				all.bytes(), n)
		}
		give()
		close(takes)
		wait()
		for _, client := range all {
			if n := client.all.Load(); n != all[0].all.Load() || n < 1<<20 {
				t.Fatalf("one has got %d bytes, another one %d", n, all[0].all.Load())
			}
		}
	})
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
	synctest.Test(t, func(t *testing.T) {
		const clients, little = 100, 100 * 32 << 10 // an answer is 1 MB
		s := showing(newThousands())
		_ = ask(s, "/v1/status") // looks at them
		for range cap(s.turns) {
			s.turns <- struct{}{}
		}
		takes := make(chan struct{})
		close(takes)
		var all crowd
		var wait func()
		if n := made(func() {
			all, wait = asksFor(t, clients, s.handler(), "/v1/items?limit=10000", takes)
		}); n > little || all.bytes() > 0 {
			t.Errorf("while others have all turns %d bytes came, and making took %d",
				all.bytes(), n)
		}
		for range cap(s.turns) {
			<-s.turns
		}
		wait()
		if n := all.bytes(); n < 1<<20 {
			t.Errorf("%d bytes came", n)
		}
	})
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

// Who does not want to wait is answered at once where a turn is free.
func TestAListIsAnsweredWithoutAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		consul := devconsul.New(devconsul.Config{NoJitter: true})
		t.Cleanup(consul.Close)
		if _, err := consul.Client().KV().Put(&api.KVPair{Key: "service/demo/config_data/a",
			Value: []byte("v")}, nil); err != nil {
			t.Fatal(err)
		}
		s := showing(&fakeLooker{})
		s.config = loaded(t, consul.Client())
		time.Sleep(5 * time.Second)
		for range 50 {
			if w := ask(s, "/config/?wait=0s"); w.Code != http.StatusOK {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
		}
	})
}

// One request's head has room for 21,000 names: its turn would last for seconds.
func TestAFilterOfManyValuesCostsLittleMoreThanOfOne(t *testing.T) {
	s := showing(newThousands())
	quickest := func(path string) time.Duration {
		least := time.Hour
		for range 3 {
			begin := time.Now()
			if w := ask(s, path); w.Code != http.StatusOK {
				t.Fatalf("%d %.100s", w.Code, w.Body)
			}
			least = min(least, time.Since(begin))
		}
		return least
	}
	for one, more := range map[string]string{"/v1/items?member=xx": strings.Repeat(",yy", 21_000),
		"/v1/items?id=xx": strings.Repeat("&id=yy", 9000)} {
		if a, b := quickest(one), quickest(one+more); b > 100*a {
			t.Errorf("%s takes %v, and with many more values %v", one, a, b)
		}
	}
}
