package onconsul_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// delayedTake is an election whose leader was lost, did not hear of it and resigned. So its
// successors do not wait, but Consul's lock-delay refuses their takes. A copy of the first take of
// a is still under way. b is behind a.
type delayedTake struct {
	*embedded
	judge    *electiontest.Judge
	a, b     *election.Election
	one, two *onconsul.Conn
	wire     *transport.Wire // of a
	copy     atomic.Pointer[http.Request]
	amid     atomic.Pointer[func()] // called once, just before the next request of a to leave
}

// newDelayedTake returns at the moment at which the lock-delay is over, before a or b tries again.
// b takes 5 ms for each request, and a 2 ms.
func newDelayedTake(t *testing.T, judge *electiontest.Judge) *delayedTake {
	d := &delayedTake{embedded: newEmbedded(t), judge: judge}
	consul := saysDelays(d.consul.RoundTripper())
	var deaf atomic.Bool
	lost := d.over(transport.Unheard(consul, func(r *http.Request) bool {
		return deaf.Load() && r.Method == http.MethodGet
	}, transport.Hang))
	leaves := transport.TxnWith(`"delete-cas"`)
	d.wire = transport.NewWire(transport.Func(func(r *http.Request) (*http.Response, error) {
		if takes(r) {
			d.copy.CompareAndSwap(nil, transport.Copy(r))
		}
		time.Sleep(time.Millisecond)
		if leaves(r) {
			if amid := d.amid.Swap(nil); amid != nil {
				(*amid)()
			}
		}
		resp, err := consul.RoundTrip(r)
		time.Sleep(time.Millisecond)
		return resp, err
	}))
	d.one, d.two = d.over(d.wire), d.over(transport.Slow(consul, func() time.Duration {
		return 5 * time.Millisecond
	}))
	leader := d.stands(lost, "leader")
	d.a = d.stands(d.one, "a")
	d.b = d.stands(d.two, "b")
	deaf.Store(true)
	d.end(lost)
	leader.Resign()
	<-leader.Done()
	lost.Close()
	time.Sleep(onconsul.DefaultTTL)
	if d.copy.Load() == nil {
		t.Fatal("a has not tried to take the leadership")
	}
	return d
}

func (d *delayedTake) close() {
	d.wire.Cut(nil)
	d.one.Close()
	d.two.Close()
	<-d.a.Done()
	<-d.b.Done()
	d.consul.Close()
}

func (d *delayedTake) stands(over election.Connection, name string) *election.Election {
	e := nominated(d.t, d.judge.Record(over), election.Config{Election: contested, Name: name,
		Logger: d.log, Lead: func(ctx context.Context, s election.Status) error {
			work := func() { d.judge.Work(contested, s.Self.ID, s.Token) }
			for work(); store.Pause(ctx, 100*time.Millisecond); work() {
			}
			work()
			return nil
		}})
	time.Sleep(time.Second)
	return e
}

// arrives has the copy arrive.
func (d *delayedTake) arrives() { transport.Again(d.consul.RoundTripper(), d.copy.Load()) }

// end ends the session of a connection.
func (d *delayedTake) end(conn *onconsul.Conn) {
	_, err := d.consul.Client().Session().Destroy(conn.Contact().Get().Session, nil)
	must(d.t, err)
}

// resigns has somebody resign, and waits until that is done.
func (d *delayedTake) resigns(e *election.Election) {
	e.Resign()
	<-e.Done()
}

// holder is who has the leadership, by name; empty: nobody.
func (d *delayedTake) holder() string {
	d.judge.Look(contested, d.look)
	switch id, _, _ := d.look(); id {
	case "":
		return ""
	case d.a.State().Get().Self.ID:
		return "a"
	case d.b.State().Get().Self.ID:
		return "b"
	default:
		return id
	}
}

// A take comes twice. The lock-delay refuses the first copy, and the second copy comes when the
// lock-delay is over. It wins, unless its candidate has led or left since, or its session or the
// election has ended. That candidate finds that it has the leadership, and leads. If it does not
// want it any more it gives it up. If it is lost it is succeeded as any other leader.
func TestATakeThatALockDelayHasRefusedMayWinLater(t *testing.T) {
	const soon, delay = 1100 * time.Millisecond, onconsul.DefaultTTL // of the leader
	for name, c := range map[string]struct {
		do     func(*delayedTake)
		holds  string // who has the leadership then
		leads  string // who leads within that time
		within time.Duration
	}{
		"it waits": {(*delayedTake).arrives, "a", "a", soon},
		"it has led since": {func(d *delayedTake) {
			time.Sleep(time.Second)
			must(d.t, d.b.HandOver(d.t.Context(), "b"))
			time.Sleep(time.Second)
			d.resigns(d.b)
			d.resigns(d.a)
			d.arrives()
		}, "", "", soon},
		"it resigns": {func(d *delayedTake) {
			d.arrives()
			d.a.Resign()
		}, "a", "b", soon},
		"it is about to leave": {func(d *delayedTake) {
			amid := d.arrives
			d.amid.Store(&amid)
			d.resigns(d.a)
		}, "", "b", soon},
		"it has left": {func(d *delayedTake) {
			d.resigns(d.a)
			d.arrives()
		}, "", "b", soon},
		"the election ends": {func(d *delayedTake) {
			d.arrives()
			must(d.t, d.b.End(d.t.Context()))
		}, "a", "", soon},
		"the election has ended": {func(d *delayedTake) {
			must(d.t, d.b.End(d.t.Context()))
			d.arrives()
		}, "", "", soon},
		"its connection is closed": {func(d *delayedTake) {
			d.arrives()
			d.one.Close() // its session ends before it knows that it has the leadership
		}, "", "b", delay + soon},
		"its session has ended": {func(d *delayedTake) {
			d.end(d.one)
			d.arrives()
		}, "", "b", soon},
		"it is cut off for a while": {func(d *delayedTake) {
			d.wire.Cut(transport.ErrReset)
			d.arrives()
			time.AfterFunc(2*time.Second, func() { d.wire.Cut(nil) })
		}, "a", "a", 6 * time.Second},
		"it is lost": {func(d *delayedTake) {
			d.wire.Cut(transport.ErrReset)
			d.arrives()
		}, "a", "b", delay*13/20 + delay + time.Second},
		"it is killed, and its guard resigns for it": {func(d *delayedTake) {
			d.wire.Cut(transport.ErrReset)
			d.arrives()
			led, err := onconsul.Depart(d.t.Context(), onconsul.Config{Client: d.consul.Client()},
				contested, d.one.Contact().Get().Session)
			if err != nil || !led {
				d.t.Errorf("the departure: %v, and it has led: %v", err, led)
			}
		}, "", "b", soon},
	} {
		t.Run(name, func(t *testing.T) {
			judge := (*electiontest.Judge)(nil)
			synctest.Test(t, func(t *testing.T) {
				judge = electiontest.NewJudge()
				d := newDelayedTake(t, judge)
				defer d.close()
				c.do(d)
				if got := d.holder(); got != c.holds {
					t.Errorf("when the copy has come %q has the leadership, not %q", got, c.holds)
				}
				time.Sleep(c.within)
				if got := d.holder(); got != c.leads {
					t.Errorf("%v later %q has the leadership, not %q", c.within, got, c.leads)
				}
				for name, e := range map[string]*election.Election{"a": d.a, "b": d.b} {
					if s := e.State().Get(); (s.Role == election.Leading) != (name == c.leads) {
						t.Errorf("%v later %s is told %v", c.within, name, s)
					}
				}
			})
			if n := judge.Counted(); n["take delayed"] == 0 {
				t.Errorf("this was another history: %v", n)
			}
			if err := judge.Verdict(time.Minute); err != nil {
				t.Error(err)
			}
		})
	}
}
