package devconsul_test

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
)

func TestDuringAnElectionOnlyStaleReadsSucceed(t *testing.T) {
	bubble(t, func(w world) {
		s := w.session(`{"Checks":[]}`)
		w.edit("a=1")
		w.s.ElectionStart()
		time.Sleep(3 * time.Second)
		for _, line := range []string{
			"GET /v1/kv/a", "GET /v1/kv/a?consistent", "GET /v1/kv/?recurse", "PUT /v1/kv/a x",
			"DELETE /v1/kv/a",
			"PUT /v1/session/create", "PUT /v1/session/renew/" + s, "PUT /v1/session/destroy/" + s,
			"GET /v1/session/list",
			`PUT /v1/txn [{"KV":{"Verb":"set","Key":"a"}}]`,
			`PUT /v1/txn [{"KV":{"Verb":"get","Key":"a"}}]`,
			"GET /v1/catalog/nodes", "GET /v1/health/service/web",
		} {
			w.want(line, 500, "No cluster leader")
		}
		for _, line := range []string{"GET /v1/kv/a?stale", "GET /v1/session/list?stale",
			`PUT /v1/txn?stale [{"KV":{"Verb":"get","Key":"a"}}]`} {
			a := w.call(line)
			if a.code != 200 || a.header.Get("X-Consul-KnownLeader") != "false" ||
				a.header.Get("X-Consul-LastContact") != "3000" {
				t.Errorf("%s: %d %v", line, a.code, a.header)
			}
		}
		w.want("GET /v1/status/leader", 200, `""`)
		w.s.ElectionEnd()
		a := w.call("GET /v1/kv/a")
		if a.code != 200 || a.header.Get("X-Consul-KnownLeader") != "true" ||
			a.header.Get("X-Consul-LastContact") != "0" {
			t.Errorf("%d %v", a.code, a.header)
		}
		if !w.alive(s) {
			t.Error("the session is gone")
		}
	})
}

func TestElectionFailsBlockingQueriesButStaleOnes(t *testing.T) {
	bubble(t, func(w world) {
		w.edit("a=1")
		p := w.watch(context.Background(), "/v1/kv/a", "10s")
		stale := w.watch(context.Background(), "/v1/kv/a?stale", "10s")
		time.Sleep(time.Second)
		w.s.ElectionStart()
		<-p.done
		if p.a.code != 500 || p.a.body != "No cluster leader" || p.took != time.Second {
			t.Errorf("%d %q after %v", p.a.code, p.a.body, p.took)
		}
		if <-stale.done; stale.a.code != 200 || stale.took != 10*time.Second {
			t.Errorf("stale: %d after %v", stale.a.code, stale.took)
		}
	})
}

func TestElectionGivesEverySessionItsFullTimeAnew(t *testing.T) {
	bubble(t, func(w world) {
		s := w.session(noChecks)
		time.Sleep(15 * time.Second)
		w.s.ElectionStart()
		time.Sleep(time.Hour) // nothing expires without a leader
		w.s.ElectionEnd()
		time.Sleep(20*time.Second - time.Nanosecond)
		if !w.alive(s) {
			t.Error("gone before twice the TTL after the election")
		}
		time.Sleep(time.Millisecond)
		if w.alive(s) {
			t.Error("still there")
		}
	})
}

func TestAgentCatchesUpAfterAnElection(t *testing.T) {
	bubble(t, func(w world) {
		w.call(`PUT /v1/agent/check/register {"Name":"c","TTL":"10s","Status":"passing"}`)
		s := w.session(`{"NodeChecks":["c"]}`)
		w.s.ElectionStart()
		time.Sleep(11 * time.Second) // the check expires while nobody can be told
		w.s.ElectionEnd()
		if w.alive(s) {
			t.Error("the session outlived its check")
		}
	})
}

func TestRestoreBringsOldContentsBackUnderANewIndex(t *testing.T) {
	bubble(t, func(w world) {
		old := w.session(`{"Checks":[],"TTL":"10s","LockDelay":"30s"}`)
		w.edit("a=old")
		w.acquire("lock", old)
		lock, a := w.key("lock"), w.key("a")
		snap := w.s.Snapshot()

		w.edit("a=new b=new")
		w.call("PUT /v1/kv/lock?release=" + old)
		w.acquire("lock", old)
		late := w.session(`{"Checks":[]}`)
		w.acquire("delayed", old)
		w.call("PUT /v1/session/destroy/" + old)
		newest := w.s.Dump().Index

		p := w.watch(context.Background(), "/v1/kv/a", "5m")
		missed := p.a
		must(t, w.s.Restore(snap))
		// The watch returns with what it had found before, as Consul's does.
		if <-p.done; p.took != 0 || !strings.Contains(p.a.body, "bmV3") {
			t.Errorf("watch: %q after %v (%v)", p.a.body, p.took, missed)
		}
		if now := w.key("lock"); !reflect.DeepEqual(now, lock) {
			t.Errorf("lock: %+v, want %+v", now, lock)
		}
		if now := w.key("a"); !reflect.DeepEqual(now, a) {
			t.Errorf("a: %+v, want %+v", now, a)
		}
		if w.key("b") != nil || w.alive(late) || !w.alive(old) {
			t.Error("what came after the snapshot must be gone, what ended after it must be back")
		}
		if idx := w.call("GET /v1/kv/?recurse").index(t); idx >= newest {
			t.Errorf("the index of the keys is %d, was %d", idx, newest)
		}
		other := w.session(`{"Checks":[]}`)
		if !w.acquire("delayed", other) {
			t.Error("lock-delay outlived the restore")
		}
		if idx := w.key("delayed").ModifyIndex; idx <= newest {
			t.Errorf("the next write has index %d, no higher than %d", idx, newest)
		}
		time.Sleep(20*time.Second - time.Nanosecond)
		if !w.alive(old) {
			t.Error("a restored session must have its full time")
		}
		time.Sleep(time.Millisecond)
		if w.alive(old) || w.key("lock").Session != "" {
			t.Error("a restored session must expire")
		}
	})
}

func TestResetStartsFromTheBeginning(t *testing.T) {
	bubble(t, func(w world) {
		fresh := w.s.Dump().Index
		s := w.session(noChecks)
		for range 100 {
			w.acquire("lock", s)
			w.call("PUT /v1/kv/lock?release=" + s)
		}
		w.call(`PUT /v1/agent/check/register {"Name":"c","TTL":"10s"}`)
		p := w.watch(context.Background(), "/v1/kv/lock", "5m")
		w.s.Reset()
		if <-p.done; p.took != 0 {
			t.Errorf("a watch returned after %v", p.took)
		}
		d := w.s.Dump()
		if d.Index != fresh || len(d.Entries) != 0 || len(d.Sessions) != 0 {
			t.Errorf("%+v, want index %d and nothing else", d, fresh)
		}
		w.want("GET /v1/agent/checks", 200, "{}")
		w.want("PUT /v1/session/renew/"+s, 404, "Session id '"+s+"' not found")
		time.Sleep(time.Hour)
		w.session(noChecks)
	})
}

func TestCommitsTellEveryLogEntryInOrder(t *testing.T) {
	bubble(t, func(w world) {
		var commits []devconsul.Commit
		w.s.OnCommit(func(c devconsul.Commit) {
			if d := w.s.Dump(); d.Index != c.Index {
				t.Errorf("Dump within commit %d has index %d", c.Index, d.Index)
			}
			commits = append(commits, c)
		})
		s := w.session(noChecks)
		w.acquire("lock", s)
		w.call("PUT /v1/kv/lock?cas=1 x")
		w.call(`PUT /v1/txn [{"KV":{"Verb":"set","Key":"a","Value":"MQ=="}},` +
			`{"KV":{"Verb":"check-index","Key":"none","Index":3}}]`)
		time.Sleep(20 * time.Second)
		synctest.Wait()

		type op struct {
			Verb, Key string
			OK        bool
		}
		var got [][]op
		for i, c := range commits {
			if i > 0 && c.Index != commits[i-1].Index+1 {
				t.Errorf("index %d after %d", c.Index, commits[i-1].Index)
			}
			var ops []op
			for _, o := range c.Ops {
				ops = append(ops, op{o.Verb, o.Key, o.OK})
			}
			got = append(got, ops)
		}
		want := [][]op{
			{{"session-create", "", true}},
			{{"lock", "lock", true}},
			{{"cas", "lock", false}},
			{{"set", "a", true}, {"check-index", "none", false}},
			{{"session-destroy", "", true}, {"session-release", "lock", true}},
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
		for i, applied := range []bool{true, true, false, false, true} {
			if commits[i].Applied != applied {
				t.Errorf("commit %d: applied %v", i, commits[i].Applied)
			}
		}
		if c := commits[1].Ops[0]; c.Session != s {
			t.Errorf("lock by %q", c.Session)
		}
	})
}

func TestALeaderThatReplaysItsLogAnswersFromThePast(t *testing.T) {
	bubble(t, func(w world) {
		old := w.session(noChecks)
		w.edit("a=old gone=1")
		ended := w.session(noChecks)
		past := w.s.Snapshot()
		w.edit("a=new b=1")
		w.call("DELETE /v1/kv/gone")
		young := w.session(noChecks)
		w.call("PUT /v1/session/destroy/" + ended)

		w.s.ElectionStart()
		w.s.ElectionEndBehind(past)
		w.want("GET /v1/kv/a?raw", 200, "old")
		w.want("GET /v1/kv/b?raw", 404, "")
		w.want("GET /v1/kv/gone?raw", 200, "1")
		w.want("GET /v1/kv/a?raw&stale", 200, "new")
		w.want("GET /v1/kv/a?consistent", 500,
			"rpc error making call: Not ready to serve consistent reads")
		w.want("PUT /v1/kv/a x", 500, "No cluster leader")
		w.want("PUT /v1/session/renew/"+young, 404, "Session id '"+young+"' not found")
		if a := w.call("PUT /v1/session/renew/" + old); a.code != 200 {
			t.Errorf("renew: %d %s", a.code, a.body)
		}
		if a := w.call("PUT /v1/session/renew/" + ended); a.code != 200 {
			t.Errorf("renew, of a session that has ended: %d %s", a.code, a.body)
		}
		p := w.watch(context.Background(), "/v1/kv/b", "10s")
		time.Sleep(time.Second)
		w.s.ElectionEnd()
		if <-p.done; p.a.code != 200 || p.took != time.Second {
			t.Errorf("the watch: %d after %v", p.a.code, p.took)
		}
		w.want("GET /v1/kv/a?raw", 200, "new")
		w.want("GET /v1/kv/gone?raw", 404, "")
		if !w.alive(young) || !w.alive(old) {
			t.Error("a session is gone")
		}
		time.Sleep(21 * time.Second)
		if w.alive(young) || w.alive(old) {
			t.Error("sessions outlive twice their TTL after a replay")
		}
	})
}
