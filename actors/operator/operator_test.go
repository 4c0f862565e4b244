package operator_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/hashicorp/consul/api"
)

// desk is an operator in front of an embedded Consul, and a plain client for
// what others write.
type desk struct {
	t      *testing.T
	consul *devconsul.Server
	kv     *api.KV
	op     *operator.Client
}

func operate(t *testing.T, f func(t *testing.T, d *desk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		consul := devconsul.New(devconsul.Config{})
		defer consul.Close()
		client := consul.Client()
		op, err := operator.New(client, "demo")
		if err != nil {
			t.Fatal(err)
		}
		f(t, &desk{t: t, consul: consul, kv: client.KV(), op: op})
	})
}

func (d *desk) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) put(key, value string) {
	d.t.Helper()
	_, err := d.kv.Put(&api.KVPair{Key: "service/demo/" + key, Value: []byte(value)}, nil)
	d.must(err)
}

func (d *desk) lock(key, value string) {
	d.t.Helper()
	id, _, err := d.consul.Client().Session().CreateNoChecks(&api.SessionEntry{TTL: "10s"}, nil)
	d.must(err)
	ok, _, err := d.kv.Acquire(&api.KVPair{Key: "service/demo/" + key, Value: []byte(value),
		Session: id}, nil)
	if d.must(err); !ok {
		d.t.Fatalf("%s is locked already", key)
	}
}

// commits counts the transactions and single writes from now on.
func (d *desk) commits() func() []devconsul.Commit {
	var seen []devconsul.Commit
	d.consul.OnCommit(func(c devconsul.Commit) { seen = append(seen, c) })
	return func() []devconsul.Commit { return seen }
}

func TestAddWorkChecksEverythingBeforeItWritesAnything(t *testing.T) {
	operate(t, func(t *testing.T, d *desk) {
		commits := d.commits()
		many := make([]operator.WorkInput, 500)
		for i := range many {
			many[i].ID = fmt.Sprintf("w%03d", i)
		}
		for _, bad := range []operator.WorkInput{{ID: ""}, {ID: "a/b"}, {ID: " a"}, {ID: "w000"},
			{ID: "big", Payload: make([]byte, operator.MaxPayload+1)}} {
			if err := d.op.AddWork(t.Context(), append(slices.Clone(many), bad)...); !errors.Is(err,
				operator.ErrInvalid) {
				t.Errorf("%q with %d bytes: %v", bad.ID, len(bad.Payload), err)
			}
		}
		if n := len(commits()); n != 0 {
			t.Errorf("%d writes", n)
		}
	})
}

func TestAddWorkWritesTransactionsOf127AndWhatIsThereAlreadyStays(t *testing.T) {
	operate(t, func(t *testing.T, d *desk) {
		commits := d.commits()
		items := make([]operator.WorkInput, 300)
		for i := range items {
			items[i] = operator.WorkInput{ID: fmt.Sprintf("w%03d", i), Payload: fmt.Append(nil, i),
				Weight: uint64(i % 3)}
		}
		d.must(d.op.AddWork(t.Context(), items...))
		if len(commits()) != 3 {
			t.Errorf("%d writes", len(commits()))
		}
		before := d.consul.Dump().Entries
		d.must(d.op.AddWork(t.Context(), items...))
		for i, e := range d.consul.Dump().Entries {
			if e.ModifyIndex != before[i].ModifyIndex && e.Key != "service/demo/sequence/work" {
				t.Fatalf("%s was changed", e.Key)
			}
		}
		work, err := d.op.ListWork(t.Context())
		d.must(err)
		if len(work) != 300 || work[4].ID != "w004" || string(work[4].Payload) != "4" ||
			work[4].Weight != 1 || work[5].Weight != 2 || work[3].Weight != 1 {
			t.Errorf("%d items, such as %+v", len(work), work[4])
		}
	})
}

func TestPayloadsOfEverySizeUpToTheLimitAreWritten(t *testing.T) {
	operate(t, func(t *testing.T, d *desk) {
		var items []operator.WorkInput
		for i, n := range []int{0, 1, 100_000, 290_000, operator.MaxPayload, operator.MaxPayload, 5,
			300_000, 300_000} {
			items = append(items, operator.WorkInput{ID: fmt.Sprintf("w%d-%s", i,
				strings.Repeat("é", 120)), Payload: bytes.Repeat([]byte{byte(i)}, n)})
		}
		d.must(d.op.AddWork(t.Context(), items...))
		work, err := d.op.ListWork(t.Context())
		d.must(err)
		for i, w := range work {
			if !bytes.Equal(w.Payload, items[i].Payload) {
				t.Errorf("%s has %d bytes, want %d", w.ID, len(w.Payload), len(items[i].Payload))
			}
		}
	})
}

func TestAFailedImportSaysHowFarItCame(t *testing.T) {
	n := 0
	consul := devconsul.New(devconsul.Config{})
	defer consul.Close()
	op, err := operator.New(devconsul.ClientOver(transport.When(consul.RoundTripper(),
		func(r *http.Request) bool {
			if transport.Writes(r) {
				n++
			}
			return transport.Writes(r) && n == 2
		}, transport.Always(http.StatusForbidden, "Permission denied"))), "demo")
	if err != nil {
		t.Fatal(err)
	}
	items := make([]operator.WorkInput, 300)
	for i := range items {
		items[i] = operator.WorkInput{ID: fmt.Sprint(i), Payload: []byte("p"), Weight: 1}
	}
	err = op.AddWork(t.Context(), items...)
	if !errors.Is(err, operator.ErrDenied) || !strings.Contains(err.Error(),
		"127 of 300 items are written") {
		t.Errorf("got %v", err)
	}
	// and the sequence key
	if err := op.AddWork(t.Context(), items...); err != nil || len(consul.Dump().Entries) != 300+1 {
		t.Errorf("again: %v, with %d keys", err, len(consul.Dump().Entries))
	}
}

func TestARemovalSaysInTheSameTransactionThatItIsMeant(t *testing.T) {
	operate(t, func(t *testing.T, d *desk) {
		var ids []string
		for i := range 200 {
			ids = append(ids, fmt.Sprintf("w%03d", i))
			d.put("workload/"+ids[i], "")
		}
		commits := d.commits()
		err := d.op.RemoveWork(t.Context(), append(slices.Clone(ids), "nope")...)
		if !errors.Is(err, operator.ErrNotFound) || !strings.Contains(err.Error(), "nope") {
			t.Errorf("got %v", err)
		}
		deleted := 0
		for _, c := range commits() {
			meant := false
			for _, op := range c.Ops {
				meant = meant || op.Key == "service/demo/control/override"
				if op.Verb == "delete" {
					deleted++
					if !meant {
						t.Errorf("%s was deleted without a word before it", op.Key)
					}
				}
			}
			if len(c.Ops) > 128 {
				t.Errorf("a transaction of %d operations", len(c.Ops))
			}
		}
		if deleted != 200 || len(commits()) != 2 {
			t.Errorf("%d deleted in %d transactions", deleted, len(commits()))
		}
		var at time.Time
		for _, e := range d.consul.Dump().Entries {
			if strings.HasSuffix(e.Key, "control/override") {
				at, err = time.Parse(time.RFC3339Nano, string(e.Value))
				d.must(err)
			}
		}
		if at.IsZero() {
			t.Error("control/override is not there")
		}
	})
}

func TestOrdersRefuseIDsThatCannotBe(t *testing.T) {
	operate(t, func(t *testing.T, d *desk) {
		ctx := t.Context()
		for what, err := range map[string]error{
			"drain": d.op.Drain(ctx, "a/b"), "undrain": d.op.Undrain(ctx, ""),
			"pin": d.op.Pin(ctx, "a", "n/1"), "pin item": d.op.Pin(ctx, "a/b", "n1"),
			"unpin": d.op.Unpin(ctx, ".."), "rm": d.op.RemoveWork(ctx, "a/"),
		} {
			if !errors.Is(err, operator.ErrInvalid) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if n := len(d.consul.Dump().Entries); n != 0 {
			t.Errorf("%d keys were written", n)
		}
	})
}

func TestReachWaitsForConsulAndNoLongerThanItsContext(t *testing.T) {
	operate(t, func(t *testing.T, d *desk) {
		d.consul.ElectionStart()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		begin := time.Now()
		if err := d.op.Reach(ctx); !errors.Is(err, operator.ErrUnreachable) ||
			time.Since(begin) > 3100*time.Millisecond {
			t.Errorf("got %v after %v", err, time.Since(begin))
		}
		time.AfterFunc(time.Second, d.consul.ElectionEnd)
		d.must(d.op.Reach(t.Context()))
	})
}

func TestAnOperatorNeedsAServiceThatCanBe(t *testing.T) {
	if _, err := operator.New(nil, "a b"); !errors.Is(err, operator.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}
