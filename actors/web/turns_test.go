package web

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/coordd/coordd/actors/operator"
)

// thousands is a service of 10,000 items.
type thousands struct{ items []operator.ItemStatus }

func newThousands() *thousands {
	l := &thousands{}
	for i := range maxItems {
		l.items = append(l.items, operator.ItemStatus{ID: fmt.Sprintf("device_group_%05d", i),
			State: operator.ItemRunning, Member: "n1", Grant: 1})
	}
	return l
}

func (l *thousands) Look(context.Context) (operator.Status, operator.Holders, []operator.ItemStatus,
	error) {
	return operator.Status{}, operator.Holders{}, l.items, nil
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
