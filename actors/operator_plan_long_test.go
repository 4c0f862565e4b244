package actors_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/hashicorp/consul/api"
)

// A member that is gone is found among the assignments: once, and not for each time that it is
// named. One request's head names it 21,000 times.
func TestAPlanThatNamesMembersOftenCostsLittleMoreThanOneThatNamesThemOnce(t *testing.T) {
	consul := devconsul.New(devconsul.Config{})
	t.Cleanup(consul.Close)
	for i := range 2000 {
		key := fmt.Sprintf("service/demo/assignments/n%d/item_%04d", 1+i/1999, i) // n2 has the last
		if _, err := consul.Client().KV().Put(&api.KVPair{Key: key}, nil); err != nil {
			t.Fatal(err)
		}
	}
	op, err := actors.NewOperator(consul.Client(), "demo")
	if err != nil {
		t.Fatal(err)
	}
	quickest := func(times int) time.Duration {
		least := time.Hour
		for range 3 {
			begin := time.Now()
			if _, err := op.Plan(t.Context(), actors.WhatIf{
				Without: slices.Repeat([]string{"n2"}, times)}); err != nil {
				t.Fatal(err)
			}
			least = min(least, time.Since(begin))
		}
		return least
	}
	if once, often := quickest(1), quickest(21_000); often > 20*once {
		t.Errorf("named once it takes %v, and named often %v", once, often)
	}
}
