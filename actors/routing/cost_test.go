package routing_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/hashicorp/consul/api"
)

// meter counts the requests of a router and the bytes of their answers' bodies.
type meter struct {
	to              http.RoundTripper
	requests, bytes atomic.Int64
}

func (m *meter) RoundTrip(r *http.Request) (*http.Response, error) {
	m.requests.Add(1)
	resp, err := m.to.RoundTrip(r)
	if err == nil {
		resp.Body = &metered{resp.Body, m}
	}
	return resp, err
}

type metered struct {
	io.ReadCloser
	m *meter
}

func (b *metered) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.m.bytes.Add(int64(n))
	return n, err
}

func (m *meter) take() (requests, bytes int64) { return m.requests.Swap(0), m.bytes.Swap(0) }

// What a router costs Consul: while nothing happens, and for each item that moves.
func TestARouterCostsConsulLittle(t *testing.T) {
	for _, c := range []struct{ members, items int }{{3, 300}, {30, 3000}, {100, 10_000}} {
		t.Run(fmt.Sprintf("%d members, %d items", c.members, c.items), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				consul := devconsul.New(
					devconsul.Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
				defer consul.Close()
				w := populate(t, consul, c.members, c.items)
				m := &meter{to: consul.RoundTripper()}
				r, stop := begin(t, m, slog.New(slog.NewTextHandler(t.Output(), nil)))
				defer stop()
				if _, err := r.Locate(t.Context(), w.item(0)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				first, firstBytes := m.take()

				const idle = 20 * time.Minute
				time.Sleep(idle)
				requests, bytes := m.take()
				perSecond, bytesPerSecond := float64(requests)/idle.Seconds(),
					float64(bytes)/idle.Seconds()

				const moves = 10
				for i := range moves {
					from := w.owner[i]
					w.move(i, (from+1)%c.members)
					time.Sleep(3 * time.Second)
					if loc, err := r.Locate(t.Context(), w.item(i)); err != nil ||
						loc.Member != w.member((from+1)%c.members) {
						t.Fatalf("%s: %+v, %v", w.item(i), loc, err)
					}
				}
				moveRequests, moveBytes := m.take()
				perMove := float64(moveRequests)/moves - 3*perSecond
				bytesPerMove := float64(moveBytes)/moves - 3*bytesPerSecond
				t.Logf("first reading %d requests, %d bytes; idle %.2f requests/s, %.1f bytes/s; "+
					"a move %.1f requests, %.0f bytes",
					first, firstBytes, perSecond, bytesPerSecond, perMove, bytesPerMove)
				// The pulse's two requests every 2.25 s; each poll is asked again every five
				// minutes.
				if most := 2/2.25 + float64(c.members+2)/280; perSecond > most {
					t.Errorf("%.2f requests/s, want %.2f at the most", perSecond, most)
				}
				// The names below members/ and acks/ at each pulse, and what the polls bring again.
				if bytesPerSecond > 40+40*float64(c.members)+float64(firstBytes)/280 {
					t.Errorf("%.1f bytes/s while nothing happens", bytesPerSecond)
				}
				if perMove > 5 || bytesPerMove > float64(firstBytes)*4/float64(c.members)+1000 {
					t.Errorf("a move costs %.1f requests and %.0f bytes; everything there is are "+
						"%d bytes",
						perMove, bytesPerMove, firstBytes)
				}
			})
		})
	}
}

// populated is a cluster as it is in Consul, without its members.
type populated struct {
	t       testing.TB
	client  *api.Client
	store   *protocol.Store
	session string
	owner   []int
}

func (w *populated) item(i int) string   { return fmt.Sprintf("device_group_%05d", i) }
func (w *populated) member(i int) string { return fmt.Sprintf("member-%03d.example", i) }

func (w *populated) key(i int) string {
	return w.store.Keys().Assignment(w.member(w.owner[i]), w.item(i))
}

func (w *populated) grant() []byte {
	return protocol.Assignment{State: protocol.StateOwn, Session: w.session,
		Reason: "spread"}.Encode()
}

func (w *populated) write(ops ...store.Op) {
	w.t.Helper()
	for len(ops) > 0 {
		n := min(len(ops), 100)
		if _, err := w.store.Txn(w.t.Context(), ops[:n]...); err != nil {
			w.t.Fatal(err)
		}
		ops = ops[n:]
	}
}

func populate(t testing.TB, consul *devconsul.Server, members, items int) *populated {
	client := consul.Client()
	s, err := protocol.New("demo", store.Config{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	session, _, err := client.Session().CreateNoChecks(&api.SessionEntry{TTL: "86400s"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &populated{t: t, client: client, store: s, session: session, owner: make([]int, items)}
	keys := s.Keys()
	var ops []store.Op
	for i := range members {
		id := w.member(i)
		record := protocol.MemberRecord{Status: protocol.StatusAlive, Address: id + ":9000",
			Version: "1.0", Process: protocol.Process{Instance: id + "-1763740800000000000",
				Host:   id,
				BootID: session, PID: 4711, StartTime: 123456789}}
		ops = append(ops, store.Lock(keys.Member(id), record.Encode(), 0, session),
			store.Set(keys.AssignmentsOf(id), []byte(session), 0), w.ack(id, 1))
	}
	for i := range items {
		w.owner[i] = i % members
		ops = append(ops, store.Create(w.key(i), w.grant()))
	}
	w.write(ops...)
	return w
}

func (w *populated) ack(id string, n uint64) store.Op {
	return store.Set(w.store.Keys().Ack(id), protocol.Ack{Session: w.session, Clear: true,
		Counter: n}.Encode(), 0)
}

// move has an item change hands as the leader and the members do it.
func (w *populated) move(i, to int) {
	from := w.member(w.owner[i])
	w.write(store.Set(w.key(i), protocol.Assignment{State: protocol.StateRel,
		Session: w.session}.Encode(), 0))
	time.Sleep(100 * time.Millisecond) // the work ends
	w.write(store.Delete(w.key(i)), w.ack(from, uint64(i)+2))
	time.Sleep(250 * time.Millisecond) // the leader's merge
	w.owner[i] = to
	w.write(store.Create(w.key(i), w.grant()))
}
