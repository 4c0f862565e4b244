package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/internal/testkit/keys"
)

// perTxn is how many operations a transaction has beside the guard and the sequence key.
const perTxn = store.MaxOps - 2

// guarded makes a leader key and returns its guard.
func guarded(t *testing.T, s store.Store) store.Op {
	t.Helper()
	return store.CheckIndex("leader", txn(t, s, store.Lock("leader", []byte("me"), 0,
		session(t, s))).Index)
}

// unit creates a key of a member.
func unit(member string, item int) store.Unit {
	return store.Unit{Lane: member,
		Ops: []store.Op{store.Create(fmt.Sprintf("a/%s/%05d", member, item), []byte("own"))},
		Tag: item}
}

func TestSharedConditionsAreOnceInATransactionAndBeforeAllOperations(t *testing.T) {
	batched(t, func(t *testing.T, p *spy, s store.Store, guard store.Op) {
		var units []store.Unit
		for m := range 2 {
			member := fmt.Sprint("m", m)
			id := session(t, s)
			txn(t, s, store.Lock("members/"+member, nil, 0, id))
			for i := range 20 {
				u := unit(member, i)
				u.Shared = []store.Op{store.CheckSession("members/"+member, id)}
				units = append(units, u)
			}
		}
		p.txns = nil
		for i, o := range p.writer(t, s, guard, 4).Write(t.Context(), units) {
			if o.Err != nil || len(o.Result.Entries) != 1 ||
				o.Result.Entries[0].Key != units[i].Ops[0].Key() {
				t.Fatalf("unit %d: %+v", i, o)
			}
		}
		if len(p.txns) != 1 || len(p.txns[0]) != 2+2+40 || p.txns[0][2].Verb != "check-session" ||
			p.txns[0][3].Verb != "check-session" {
			t.Errorf("transactions %+v", p.txns)
		}
	})
}

func TestConditionsThatContradictEachOtherDoNotShareATransaction(t *testing.T) {
	batched(t, func(t *testing.T, p *spy, s store.Store, guard store.Op) {
		index := txn(t, s, store.Set("c", nil, 0)).Index
		p.txns = nil
		good, bad := unit("m1", 1), unit("m2", 2)
		good.Shared = []store.Op{store.CheckIndex("c", index)}
		bad.Shared = []store.Op{store.CheckIndex("c", index-1)}
		out := p.writer(t, s, guard, 1).Write(t.Context(), []store.Unit{good, bad})
		must(t, out[0].Err)
		r := refusal(t, out[1].Err, -1, "c")
		if r.Guard {
			t.Error("the guard is blamed")
		}
	})
}

func TestARefusalElsewhereIsOfItsTransactionAloneAndNamesTheUnit(t *testing.T) {
	batched(t, func(t *testing.T, p *spy, s store.Store, guard store.Op) {
		must(t, keys.Put(t.Context(), s, "a/m/00130", []byte("taken"), 0))
		must(t, keys.Put(t.Context(), s, "a/m/00140", []byte("taken"), 0))
		var units []store.Unit
		for i := range perTxn * 3 {
			units = append(units, unit("m", i))
		}
		for i, o := range p.writer(t, s, guard, 4).Write(t.Context(), units) {
			switch {
			case i/perTxn != 1:
				must(t, o.Err)
			case i == 130:
				refusal(t, o.Err, 0, "a/m/00130")
			case i == 140:
				refusal(t, o.Err, 0, "a/m/00140")
			default:
				refusal(t, o.Err, -1, "a/m/00130")
			}
			if t.Failed() {
				t.FailNow()
			}
		}
		entries, _, err := s.List(t.Context(), "a/", store.Default)
		if want := perTxn*2 + 2; err != nil || len(entries) != want {
			t.Errorf("%d keys, want %d; error %v", len(entries), want, err)
		}
	})
}

func TestAfterAnUnknownOutcomeOrARefusedGuardNothingMoreIsSent(t *testing.T) {
	answered := func(status int, body string) func(*testing.T, *spy) (*http.Response, error) {
		return func(*testing.T, *spy) (*http.Response, error) {
			return answer(nil, status, body), nil
		}
	}
	for name, fault := range map[string]struct {
		do      func(*testing.T, *spy) (*http.Response, error)
		kind    error
		unknown bool
	}{
		"cut": {func(*testing.T, *spy) (*http.Response, error) {
			return nil, io.ErrUnexpectedEOF
		}, store.ErrUnreachable, true},
		"500":     {answered(500, "rpc error: leadership lost"), store.ErrUnreachable, true},
		"garbage": {answered(200, "{}"), store.ErrUnreachable, true},
		"429":     {answered(429, ""), store.ErrUnreachable, false},
		"session": {answered(409, `{"Results":null,"Errors":[{"OpIndex":3,`+
			`"What":"invalid session \"x\""}]}`), store.ErrSessionGone, false},
		"guard": {func(t *testing.T, p *spy) (*http.Response, error) {
			must(t, keys.Put(context.Background(), over(t, p.next), "leader",
				[]byte("stranger"), 0))
			return nil, nil
		}, store.ErrRefused, false},
	} {
		t.Run(name, func(t *testing.T) {
			batched(t, func(t *testing.T, p *spy, s store.Store, guard store.Op) {
				p.before = func(n int, _ []wire) (*http.Response, error) {
					if n == 1 {
						return fault.do(t, p)
					}
					return nil, nil
				}
				var units []store.Unit
				for i := range perTxn * 4 {
					units = append(units, unit("m", i))
				}
				out := p.writer(t, s, guard, 4).Write(t.Context(), units)
				must(t, out[perTxn-1].Err)
				wantKind(t, out[perTxn].Err, fault.kind, fault.unknown)
				wantKind(t, out[2*perTxn-1].Err, fault.kind, fault.unknown)
				wantKind(t, out[2*perTxn].Err, store.ErrNotSent, false)
				if len(p.txns) != 2 {
					t.Errorf("%d transactions were sent", len(p.txns))
				}
				if name == "guard" && !refusal(t, out[perTxn].Err, -1, "leader").Guard {
					t.Error("the refusal is not the guard's")
				}
			})
		})
	}
}

func TestABatchWaitsForWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var flying atomic.Int32
		w := writerOver(t, func(r *http.Request) (*http.Response, error) {
			flying.Add(1)
			defer flying.Add(-1)
			return hang(r)
		})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		var units []store.Unit
		for m := range 6 {
			for i := range perTxn {
				units = append(units, unit(fmt.Sprint("m", m), i))
			}
		}
		out := w.Write(ctx, units)
		if n := flying.Load(); n != 0 {
			t.Errorf("%d requests are still under way", n)
		}
		for i, o := range out {
			if i < 4*perTxn {
				wantKind(t, o.Err, store.ErrUnreachable, true)
				if !errors.Is(o.Err, context.Canceled) {
					t.Errorf("unit %d: %v", i, o.Err)
				}
			} else {
				wantKind(t, o.Err, store.ErrNotSent, false)
			}
			if t.Failed() {
				t.FailNow()
			}
		}
	})
}

func TestAnInvalidUnitIsLeftOutAndTheOthersGo(t *testing.T) {
	batched(t, func(t *testing.T, p *spy, s store.Store, guard store.Op) {
		huge := store.Unit{Lane: "m"}
		for i := range store.MaxOps - 1 {
			huge.Ops = append(huge.Ops, store.Set(fmt.Sprint("h", i), nil, 0))
		}
		shared := unit("m", 9)
		shared.Shared = []store.Op{store.Set("x", nil, 0)}
		units := []store.Unit{unit("m", 1), huge, {Lane: "m"},
			{Lane: "m", Ops: []store.Op{store.CheckNotExists("x")}},
			{Lane: "m", Ops: []store.Op{store.Set("/x", nil, 0)}}, shared, unit("m", 2)}
		out := p.writer(t, s, guard, 4).Write(t.Context(), units)
		must(t, out[0].Err)
		must(t, out[6].Err)
		for _, o := range out[1:6] {
			wantKind(t, o.Err, store.ErrInvalid, false)
		}
		if _, err := store.OpenWriter(t.Context(), s, store.Op{}, "sequence/", 4); !errors.Is(err,
			store.ErrInvalid) {
			t.Errorf("without a guard: %v", err)
		}
		if out := p.writer(t, s, guard, 4).Write(t.Context(), nil); len(out) != 0 {
			t.Errorf("without units: %v", out)
		}
	})
}

// Whatever the units are, each of them is applied whole, once, in the order
// of its lane, within the limits.
func TestAnyBatchIsAppliedWholeAndInOrder(t *testing.T) {
	testkit.Draws(t, func(t *testing.T, d testkit.Dice) {
		type plan struct{ lane, ops, size, shared int }
		var plans []plan
		for range d.Few(15) {
			plans = append(plans, plan{d.IntN(6), 1 + d.IntN(40),
				testkit.Pick(d, 0, 0, 0, 0, 0, 6000), d.IntN(4)})
		}
		inFlight := 1 + d.IntN(5)
		var problem string
		var units []store.Unit
		synctest.Test(t, func(t *testing.T) {
			consul := devconsul.New(devconsul.Config{})
			defer consul.Close()
			guard := guarded(t, over(t, consul.RoundTripper()))
			p := &spy{next: consul.RoundTripper()}
			p.before = func(n int, _ []wire) (*http.Response, error) {
				time.Sleep(time.Duration(1+n%3) * time.Millisecond)
				return nil, nil
			}
			for i, pl := range plans {
				u := store.Unit{Lane: fmt.Sprint("m", pl.lane)}
				for j := range pl.shared {
					u.Shared = append(u.Shared, store.CheckNotExists(fmt.Sprintf("never/%s/%d",
						u.Lane, j)))
				}
				for j := range pl.ops {
					u.Ops = append(u.Ops, store.Create(fmt.Sprintf("%s/%03d/%02d", u.Lane, i, j),
						make([]byte, pl.size)))
				}
				units = append(units, u)
			}
			for i, o := range p.writer(t, over(t, p), guard, inFlight).Write(t.Context(), units) {
				if o.Err != nil || len(o.Result.Entries) != len(units[i].Ops) {
					problem = fmt.Sprintf("unit %d: %d entries, error %v", i, len(o.Result.Entries),
						o.Err)
					return
				}
			}
			if p.most > inFlight {
				problem = fmt.Sprintf("%d in flight", p.most)
			}
			lanes := map[string][]string{}
			where := map[string]int{} // the transaction of each unit
			for n, ops := range p.txns {
				if len(ops) > store.MaxOps || ops[0].Verb != "check-index" ||
					ops[0].Key != "leader" {
					problem = fmt.Sprintf("a transaction of %d begins with %+v", len(ops), ops[0])
				}
				seen := map[string]bool{}
				for _, op := range ops {
					if seen[op.Key] {
						problem = fmt.Sprintf("%s twice in a transaction", op.Key)
					}
					seen[op.Key] = true
					if lane, _, ok := strings.Cut(op.Key, "/"); ok && op.Verb == "cas" &&
						lane != "sequence" {
						lanes[lane] = append(lanes[lane], op.Key)
						unit := op.Key[:strings.LastIndexByte(op.Key, '/')]
						if first, ok := where[unit]; ok && first != n {
							problem = fmt.Sprintf("%s is split", unit)
						}
						where[unit] = n
					}
				}
			}
			if len(where) != len(units) {
				problem = fmt.Sprintf("%d of %d units are in transactions", len(where), len(units))
			}
			for lane, keys := range lanes {
				if !slices.IsSorted(keys) {
					problem = fmt.Sprintf("lane %s is out of order: %v", lane, keys)
				}
			}
		})
		if problem != "" {
			t.Fatal(problem)
		}
	})
}
