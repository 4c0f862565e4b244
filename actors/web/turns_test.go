package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors"
)

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

// A crowd that asks for long lists leaves the processors to the renewal of the session.
func TestAnswersAreMadeInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := showing(newThousands())
		_ = ask(s, "/v1/status") // looks at them
		for range cap(s.turns) {
			s.turns <- struct{}{} // others are at it
		}
		const clients = 10
		var all sync.WaitGroup
		var sent atomic.Int64
		for range clients {
			all.Go(func() {
				if w := ask(s, "/v1/items?limit=1000"); w.Code == http.StatusOK {
					sent.Add(1)
				}
			})
		}
		synctest.Wait()
		if n := sent.Load(); n > 0 {
			t.Errorf("while others have all turns %d answers came", n)
		}
		<-s.turns
		all.Wait()
		if n := sent.Load(); n != clients {
			t.Errorf("%d answers came", n)
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
