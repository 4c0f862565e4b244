package actors_test

import (
	"fmt"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/testkit"
)

// A member that is named twice is gone once: the plan is that of naming it once.
func TestAPlanIsTheSameHoweverOftenItNamesAMember(t *testing.T) {
	consul := devconsul.New(devconsul.Config{})
	t.Cleanup(consul.Close)
	kv := consul.Client().KV()
	session, _, err := consul.Client().Session().Create(&api.SessionEntry{}, nil)
	testkit.Must(t, err)
	put := func(key string) {
		_, err := kv.Put(&api.KVPair{Key: "service/demo/" + key}, nil)
		testkit.Must(t, err)
	}
	for i := 1; i < 5; i++ {
		_, _, err := kv.Acquire(&api.KVPair{Key: fmt.Sprint("service/demo/members/n", i),
			Value: []byte("alive"), Session: session}, nil)
		testkit.Must(t, err)
		for j := range 5 {
			put(fmt.Sprintf("workload/i%d%d", i, j))
			put(fmt.Sprintf("assignments/n%d/i%d%d", i, i, j))
		}
	}
	op, err := actors.NewOperator(consul.Client(), "demo")
	testkit.Must(t, err)
	plan := func(without ...string) string {
		p, err := op.Plan(t.Context(), actors.WhatIf{Without: without})
		testkit.Must(t, err)
		return fmt.Sprintf("%+v", p)
	}
	for _, names := range [][]string{{"n1"}, {"n1", "n2", "n3"}, {"n1", "n2", "n3", "n4"}} {
		if once, twice := plan(names...), plan(append(names, names...)...); once != twice {
			t.Errorf("without %v, once:\n%.400s\ntwice:\n%.400s", names, once, twice)
		}
	}
}
