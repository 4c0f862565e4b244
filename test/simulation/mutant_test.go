package simulation_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// mutant is a deliberate breakage of the protocol. One without functions is a
// rule that a patch of test/mutations switches off.
type mutant struct {
	name string
	// change rewrites one operation of a transaction that a member sends. It must leave the number
	// of operations and of answers as they are.
	change func(w *world, s *sender, op *txnOp)
	// later tells which operations of a transaction are sent in a second one.
	later func(w *world, op txnOp) bool
	// answer answers a request in Consul's place; nil: it does not.
	answer func(p *process, r *request) *http.Response
}

// without turns a condition into one that always holds and is answered alike.
func without(op *txnOp) {
	switch op.KV.Verb {
	case "check-index", "check-session":
		op.KV.Verb, op.KV.Index, op.KV.Session = "get-or-empty", 0, ""
	case "check-not-exists":
		op.KV.Key = "no/such/key"
	}
}

// wireMutants break the protocol on the way from the member to Consul.
var wireMutants = []mutant{
	{name: "no-guard", change: func(w *world, s *sender, op *txnOp) {
		if op.KV.Key == w.root+"leader" && op.KV.Verb == "check-index" {
			without(op)
		}
	}},
	{name: "leader-without-sequence", change: func(w *world, s *sender, op *txnOp) {
		if s.epoch != 0 && op.KV.Verb == "cas" && strings.HasPrefix(op.KV.Key, w.root+"sequence/") {
			op.KV.Verb, op.KV.Index = "set", 0
		}
	}},
	{name: "refusal-not-final", change: func(w *world, s *sender, op *txnOp) {
		other := func(o txnOp) bool { return !strings.HasPrefix(o.KV.Key, w.root+"sequence/") }
		if s.epoch != 0 && op.KV.Verb == "cas" && !other(*op) && !slices.ContainsFunc(s.ops[1:],
			other) {
			op.KV.Verb, op.KV.Value, op.KV.Index = "get-or-empty", nil, 0
		}
	}},
	{name: "acks-unconditional", change: func(w *world, s *sender, op *txnOp) {
		if s.epoch == 0 && op.KV.Verb == "cas" && strings.HasPrefix(op.KV.Key, w.root+"acks/") &&
			s.ops[0].KV.Verb == "check-session" {
			op.KV.Verb, op.KV.Index = "set", 0
		}
	}},
	{name: "reap-in-two-steps", later: func(w *world, op txnOp) bool {
		return op.KV.Verb == "delete-cas" && strings.HasPrefix(op.KV.Key, w.root+"assignments/")
	}},
	{name: "no-create-only", change: func(w *world, s *sender, op *txnOp) {
		if s.epoch != 0 && op.KV.Verb == "cas" && op.KV.Index == 0 && strings.HasPrefix(op.KV.Key,
			w.root+"assignments/") {
			op.KV.Verb = "set"
		}
	}},
	{name: "no-receiver-check", change: func(w *world, s *sender, op *txnOp) {
		if s.epoch != 0 && op.KV.Verb == "check-session" {
			without(op)
		}
	}},
	{name: "reap-without-ack-check", change: func(w *world, s *sender, op *txnOp) {
		if s.epoch != 0 && strings.HasPrefix(op.KV.Key, w.root+"acks/") {
			without(op)
		}
	}},
	{name: "reap-without-record-check", change: func(w *world, s *sender, op *txnOp) {
		if s.epoch != 0 && op.KV.Verb == "check-not-exists" && strings.HasPrefix(op.KV.Key,
			w.root+"members/") {
			without(op)
		}
	}},
	{name: "reap-without-either-check", change: func(w *world, s *sender, op *txnOp) {
		if s.epoch != 0 && (op.KV.Verb == "check-not-exists" && strings.HasPrefix(op.KV.Key,
			w.root+"members/") || strings.HasPrefix(op.KV.Key, w.root+"acks/")) {
			without(op)
		}
	}},
	{name: "prefix-without-slash", change: func(w *world, s *sender, op *txnOp) {
		if op.KV.Verb == "delete-tree" {
			op.KV.Key = strings.TrimSuffix(op.KV.Key, "/")
		}
	}},
	{name: "release-without-conditions", change: func(w *world, s *sender, op *txnOp) {
		switch {
		case s.epoch != 0:
		case op.KV.Verb == "delete-cas" && strings.HasPrefix(op.KV.Key, w.root+"assignments/"):
			op.KV.Verb, op.KV.Index = "delete", 0
		case op.KV.Verb == "check-session" && strings.HasPrefix(op.KV.Key, w.root+"members/"):
			without(op)
		case op.KV.Verb == "cas" && strings.HasPrefix(op.KV.Key, w.root+"acks/") &&
			s.ops[0].KV.Verb == "check-session":
			op.KV.Verb, op.KV.Index = "set", 0
		}
	}},
	{name: "goodbye-unchecked", change: func(w *world, s *sender, op *txnOp) {
		if s.epoch == 0 && len(s.ops) > 2 && s.ops[1].KV.Verb == "delete-tree" &&
			op.KV.Verb == "check-session" {
			without(op)
		}
	}},
	{name: "goodbye-not-clear"}, // the guard's, see mourn
	{name: "config-sequence-unchecked", change: func(w *world, s *sender, op *txnOp) {
		if op.KV.Verb == "cas" && strings.HasPrefix(op.KV.Key, w.root+"sequence/config/") {
			op.KV.Verb, op.KV.Index = "set", 0
		}
	}},
	{name: "config-keys-unchecked", change: func(w *world, s *sender, op *txnOp) {
		if op.KV.Verb == "cas" && strings.HasPrefix(op.KV.Key, w.root+"config_data/") {
			op.KV.Verb, op.KV.Index = "set", 0
		}
	}},
	{name: "renewal-unconfirmed", answer: func(p *process, r *request) *http.Response {
		if p.link.mu.Lock(); !p.link.renewed {
			p.link.mu.Unlock()
			return nil
		}
		p.link.mu.Unlock()
		if !p.link.confirmation(r) {
			return nil
		}
		resp := canned(r, http.StatusOK, fmt.Sprintf(`[{"ID":%q}]`, p.member.Session().Get().ID))
		resp.Header.Set("X-Consul-Index", "1")
		resp.Header.Set("X-Consul-KnownLeader", "true")
		return resp
	}},
	{name: "revoke-without-index", change: func(w *world, s *sender, op *txnOp) {
		if s.epoch != 0 && op.KV.Verb == "cas" && op.KV.Index != 0 && strings.HasPrefix(op.KV.Key,
			w.root+"assignments/") {
			op.KV.Verb = "set"
		}
	}},
}

func wireMutant(name string) *mutant {
	for i := range wireMutants {
		if wireMutants[i].name == name {
			return &wireMutants[i]
		}
	}
	return nil
}

// send hands a write to Consul, as the member meant it or as the mutant has it.
func (w *world) send(way http.RoundTripper, out *http.Request, s *sender) (*http.Response, error) {
	if w.mutant == nil || len(s.ops) == 0 {
		return way.RoundTrip(out)
	}
	var first, second []txnOp
	for _, op := range s.ops {
		if w.mutant.change != nil {
			w.mutant.change(w, s, &op)
		}
		if w.mutant.later != nil && w.mutant.later(w, op) && s.epoch != 0 {
			second = append(second, op)
			continue
		}
		first = append(first, op)
	}
	s.ops = first
	resp, err := way.RoundTrip(with(out, first))
	if err == nil && resp.StatusCode == http.StatusOK && len(second) > 0 {
		s.ops = second
		more, err := way.RoundTrip(with(out, second)) // deletes have no answer
		discard(more, err)
	}
	return resp, err
}

func with(r *http.Request, ops []txnOp) *http.Request {
	body, err := json.Marshal(ops)
	if err != nil {
		panic(err)
	}
	out := r.Clone(r.Context())
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return out
}
