package actors_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// copier keeps a copy of every transaction that writes, and delivers all of them again when it is
// told to.
type copier struct {
	to   http.RoundTripper
	keys protocol.Keys
	only []string // the kinds to deliver again

	mu     sync.Mutex
	copies []*copied
	kinds  map[string]int // how many were delivered again, of each kind
	broken map[string]string
}

type copied struct {
	kinds []string
	code  int
	req   *http.Request
	body  []byte
}

// writes tells whether the transaction is about key; others write meanwhile.
func (x *copied) writes(key string) bool {
	return bytes.Contains(x.body, []byte(`"`+key+`"`)) ||
		bytes.Contains(x.body, []byte(`"delete-tree","Key":"`+key[:strings.LastIndex(key, "/")+1]+
			`"`))
}

// copiedOp is an operation of a transaction as it goes over the wire.
type copiedOp struct {
	KV struct {
		Verb, Key, Session string
		Value              []byte
		Index              uint64
	}
}

func newCopier(c *cluster, only ...string) *copier {
	return &copier{only: only, to: c.consul.RoundTripper(), keys: c.store.Keys(),
		kinds: map[string]int{}, broken: map[string]string{}}
}

func (p *copier) RoundTrip(r *http.Request) (*http.Response, error) {
	body := []byte(transport.Txn(r))
	if len(body) == 0 {
		return p.to.RoundTrip(r)
	}
	resp, err := p.to.RoundTrip(r)
	if err == nil {
		var ops []copiedOp
		if err := json.Unmarshal(body, &ops); err != nil {
			return nil, err
		}
		if kinds := p.kindsOf(ops); slices.ContainsFunc(kinds, func(kind string) bool {
			return slices.Contains(p.only, kind)
		}) {
			p.mu.Lock()
			p.copies = append(p.copies, &copied{kinds: kinds, code: resp.StatusCode, req: r,
				body: body})
			p.mu.Unlock()
		}
	}
	return resp, err
}

// kindsOf names what a transaction does; none: it writes nothing.
func (p *copier) kindsOf(ops []copiedOp) []string {
	guarded := ops[0].KV.Verb == "check-index" && ops[0].KV.Key == p.keys.Leader()
	var kinds []string
	add := func(kind string) {
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	for i, op := range ops {
		verb, key := op.KV.Verb, op.KV.Key
		_, item, assignment := p.keys.ParseAssignment(key)
		_, member := p.keys.ParseMember(key)
		_, ack := p.keys.ParseAck(key)
		_, work := p.keys.ParseWorkItem(key)
		writes := verb == "set" || verb == "cas"
		switch {
		case strings.HasPrefix(verb, "check"), strings.HasPrefix(verb, "get"):
		case key == p.keys.Leader():
			add("leadership")
		case key == p.keys.Term():
		case guarded && assignment && verb == "cas" && op.KV.Index == 0 &&
			ops[i-1].KV.Verb == "delete-cas":
			add("reap")
		case guarded && assignment && verb == "cas" && op.KV.Index == 0:
			add("grant")
		case guarded && assignment && verb == "cas" && bytes.Contains(op.KV.Value, []byte(`"rel"`)):
			add("revoke")
		case guarded && assignment && verb == "cas":
			add("cancel")
		case guarded && assignment && verb == "delete-cas" && i+1 < len(ops) &&
			ops[i+1].KV.Verb == "cas":
		case guarded && assignment && verb == "delete-cas":
			add("erase")
		case guarded && assignment && item == "":
			add("sweep")
		case guarded && ack:
		case guarded:
		case member && verb == "lock":
			add("registration")
		case member && verb == "cas":
			add("record")
		case member && verb == "delete" && slices.ContainsFunc(ops, func(o copiedOp) bool {
			return o.KV.Verb == "delete-tree"
		}):
			add("goodbye")
		case member && verb == "delete":
			add("pause")
		case assignment && verb == "delete-cas":
			add("release")
		case ack && writes && len(ops) == 2:
			add("ack")
		case work && writes:
			add("add")
		case work:
			add("remove")
		case strings.HasPrefix(key, p.keys.Control()):
			if add("order"); verb == "delete" {
				kinds[0] = "order taken back"
			}
		}
	}
	if guarded && len(kinds) == 0 {
		return []string{"opening"}
	}
	return kinds
}

// again delivers all copies once more. Whatever that changes in Consul is a fault of the kind.
func (p *copier) again(c *cluster, when string) {
	p.mu.Lock()
	copies := slices.Clone(p.copies)
	p.mu.Unlock()
	for _, x := range copies {
		before := c.consul.Dump()
		r := x.req.Clone(c.t.Context())
		r.Body = io.NopCloser(bytes.NewReader(x.body))
		resp, err := p.to.RoundTrip(r)
		if err != nil {
			c.t.Fatal(err)
		}
		resp.Body.Close()
		after := c.consul.Dump()
		name := fmt.Sprintf("%s (%d)", strings.Join(x.kinds, "+"), x.code)
		for _, kind := range x.kinds {
			p.kinds[fmt.Sprintf("%s (%d)", kind, x.code)]++
		}
		if resp.StatusCode != http.StatusOK || p.broken[name] != "" {
			continue
		}
		had, has := map[string]uint64{}, map[string]uint64{}
		for _, e := range before.Entries {
			had[e.Key] = e.ModifyIndex
		}
		for _, e := range after.Entries {
			has[e.Key] = e.ModifyIndex
		}
		var changed []string
		for key := range had {
			if had[key] != has[key] && x.writes(key) {
				changed = append(changed, key)
			}
		}
		for key := range has {
			if _, old := had[key]; !old && x.writes(key) {
				changed = append(changed, key)
			}
		}
		if len(changed) > 0 {
			slices.Sort(changed)
			p.broken[name] = fmt.Sprintf(
				"a second copy of a %s that arrived %s was answered %d and changed %v", name, when,
				resp.StatusCode, changed)
		}
	}
}

// verify wants each kind to have been delivered again, and to have changed nothing.
func (p *copier) verify(t *testing.T) {
	t.Helper()
	for _, kind := range p.only {
		if p.kinds[kind+" (200)"] == 0 {
			t.Errorf("no %s was delivered a second time: %v", kind,
				slices.Sorted(maps.Keys(p.kinds)))
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(p.broken)) {
		t.Error(p.broken[kind])
	}
	t.Logf("delivered again: %v", p.kinds)
}

// A transaction may be delivered a second time: by a proxy that tries again, or by a dying
// connection. Every write takes effect once at most, whenever the copy arrives. Here it arrives
// after each step of what can become of an item and of a member.
func TestASecondCopyOfAWriteChangesNothing(t *testing.T) {
	run(t, func(c *cluster) {
		t, p := c.t, newCopier(c, "grant", "revoke", "cancel", "reap", "erase", "sweep", "opening",
			"registration", "record", "release", "ack", "goodbye", "pause", "add", "remove",
			"order", "order taken back", "leadership")
		defer p.verify(t)
		c.way = p
		// Its work takes a while to stop, long enough for an order to be called back.
		slow := stopsIn(700 * time.Millisecond)
		step := func(d time.Duration, format string, args ...any) {
			t.Helper()
			time.Sleep(d)
			p.again(c, "after "+fmt.Sprintf(format, args...))
		}
		must := c.must
		op, err := operator.New(devconsul.ClientOver(p), "demo")
		must(err)
		var items []operator.WorkInput
		for _, id := range c.items(9) {
			items = append(items, operator.WorkInput{ID: id})
		}
		must(op.AddWork(t.Context(), items...))
		for _, id := range []string{"n1", "n2", "n3"} {
			c.start(id, slow)
			time.Sleep(time.Second)
		}
		c.await("the items shared out", 20*time.Second, c.balanced(9))
		step(10*time.Second, "the first grants")

		item := c.itemAt("n2")
		must(op.Pin(t.Context(), item, "n3"))
		c.await("at n3", 10*time.Second, func() bool { return c.owners()[item] == "n3" })
		step(time.Second, "the release and a new grant")
		must(op.Pin(t.Context(), item, "n2"))
		c.await("at n2", 10*time.Second, func() bool { return c.owners()[item] == "n2" })
		must(op.Unpin(t.Context(), item))
		step(10*time.Second, "a move back")

		must(op.RemoveWork(t.Context(), item))
		step(5*time.Second, "a removal")
		must(op.AddWork(t.Context(), operator.WorkInput{ID: item, Payload: []byte("anew")}))
		step(5*time.Second, "its return")
		must(op.Freeze(t.Context()))
		must(op.Thaw(t.Context()))
		must(op.Drain(t.Context(), "n3"))
		c.await("n3 is empty", 10*time.Second, func() bool { return c.loads()["n3"] == 0 })
		must(op.Undrain(t.Context(), "n3"))
		must(op.Override(t.Context()))
		step(20*time.Second, "a drain that was taken back")

		// A stranger's work: the record, an assignment and the ack.
		c.put("members/n3", "alive")
		time.Sleep(2 * time.Second)
		c.put("assignments/n3/"+c.itemAt("n3"), "?")
		step(10*time.Second, "strangers")

		// An order that is called back while the work stops.
		held := c.itemAt("n2")
		must(op.Pin(t.Context(), held, "n1"))
		time.Sleep(400 * time.Millisecond)
		must(op.Unpin(t.Context(), held))
		step(20*time.Second, "an order that was called back")

		// Vanished for good, with an item that is removed meanwhile; another is back before its
		// grace is over.
		removed := c.itemAt("n3")
		c.kill("n3")
		must(op.RemoveWork(t.Context(), removed))
		step(50*time.Second, "a death")
		c.start("n3", slow)
		step(20*time.Second, "a return")
		c.kill("n3")
		time.Sleep(3 * time.Second)
		c.start("n3", slow)
		step(50*time.Second, "a return within the grace")

		c.put("members/n3", "alive")
		time.Sleep(2 * time.Second)
		c.members["n3"].cancel()
		step(200*time.Millisecond, "the beginning of a stop")
		c.stop("n3")
		step(time.Second, "a goodbye")
		c.start("n4", slow, keeping(5*time.Second))
		step(20*time.Second, "a newcomer")
		c.stop("n4")
		step(time.Second, "a goodbye for a while")
		c.start("n4", slow, keeping(5*time.Second))
		step(20*time.Second, "its return")
		c.stop(c.leader())
		step(20*time.Second, "a resignation")
	})
}

// itemAt names an item that a member works on.
func (c *cluster) itemAt(member string) string {
	c.t.Helper()
	owners := c.owners()
	for _, item := range slices.Sorted(maps.Keys(owners)) {
		if owners[item] == member {
			return item
		}
	}
	c.t.Fatalf("%s has no item: %v", member, owners)
	return ""
}

// The sequence keys of the leader's transactions lie where nobody watches: a member to which
// nothing is handed hears nothing of what is handed to others.
func TestTheLeadersWritesWakeNobodyElse(t *testing.T) {
	run(t, func(c *cluster) {
		t := c.t
		three(c, 3)
		idle := c.follower()
		c.put("control/drain/"+idle, "")
		c.await("it is empty", 10*time.Second, func() bool { return c.loads()[idle] == 0 })
		time.Sleep(70 * time.Second) // each of its polls has begun anew
		c.members[idle].net.Requests()
		for _, id := range c.items(300) {
			c.addWork("more-" + id)
			time.Sleep(100 * time.Millisecond)
		}
		c.await("all of it runs", 10*time.Second, func() bool { return sum(c.loads()) == 303 })
		for call, n := range c.members[idle].net.Requests() {
			// within half a minute one of a minute may end
			if strings.HasPrefix(call, "GET /v1/kv/") && n > 1 {
				t.Errorf("%s: %d times while others were handed 300 items", call, n)
			}
		}
	})
}
