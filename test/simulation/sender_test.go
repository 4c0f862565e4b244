package simulation_test

import (
	"encoding/json"
)

// sender is who sent the write that Consul is looking at.
type sender struct {
	proc  string
	epoch uint64 // by which it was guarded
	ops   []txnOp
}

type txnOp struct {
	KV struct {
		Verb    string
		Key     string
		Value   []byte `json:",omitempty"`
		Flags   uint64 `json:",omitempty"`
		Index   uint64 `json:",omitempty"`
		Session string `json:",omitempty"`
	}
}

func (s *sender) read(body []byte, root string) {
	if json.Unmarshal(body, &s.ops) == nil && len(s.ops) > 0 && s.ops[0].KV.Verb == "check-index" &&
		s.ops[0].KV.Key == root+"leader" {
		s.epoch = s.ops[0].KV.Index
	}
}

func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range []byte(s) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}
