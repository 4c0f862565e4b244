package actors_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/operator"
)

func TestAPlanSaysWhatTheLeaderThenDoes(t *testing.T) {
	type steps struct {
		what operator.WhatIf
		do   func(c *cluster, op *operator.Client) error
	}
	for name, s := range map[string]steps{
		"nothing": {operator.WhatIf{}, func(*cluster, *operator.Client) error { return nil }},
		"a drain": {operator.WhatIf{Drain: []string{"n2"}}, func(c *cluster,
			op *operator.Client) error {
			return op.Drain(c.t.Context(), "n2")
		}},
		"a member is lost": {operator.WhatIf{Without: []string{"n3"}}, func(c *cluster,
			_ *operator.Client) error {
			c.kill("n3")
			return nil
		}},
		"two members more": {operator.WhatIf{Add: 2}, func(c *cluster, _ *operator.Client) error {
			c.start("new-1")
			c.start("new-2")
			return nil
		}},
		"one is lost, one is drained, one comes": {operator.WhatIf{Drain: []string{"n1"},
			Without: []string{"n4"}, Add: 1}, func(c *cluster, op *operator.Client) error {
			c.start("new-1")
			c.kill("n4")
			return op.Drain(c.t.Context(), "n1")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(c *cluster) {
				op := c.operator()
				c.addWork(c.items(103)...)
				for n := range 4 {
					c.start(fmt.Sprintf("n%d", n+1), func(cfg *actors.Config) {
						if n == 2 {
							cfg.Capacity = 20
						}
					})
				}
				if err := op.Pin(c.t.Context(), "device_group_0005", "n4"); err != nil {
					c.t.Fatal(err)
				}
				settled := func() bool {
					now, err := op.Plan(c.t.Context(), operator.WhatIf{})
					return err == nil && now.Moving+now.Starting == 0 &&
						len(c.owners())+len(now.Unplaced) == 103
				}
				c.await("all run", time.Minute, func() bool {
					return len(c.owners()) == 103 && settled()
				})
				writes := len(c.consul.Dump().Entries)
				before := c.owners()
				plan, err := op.Plan(c.t.Context(), s.what)
				if err != nil {
					c.t.Fatal(err)
				}
				if len(c.consul.Dump().Entries) != writes {
					c.t.Error("a plan wrote something")
				}
				if err := s.do(c, op); err != nil {
					c.t.Fatal(err)
				}
				time.Sleep(2 * time.Minute)
				c.await("it is done", time.Minute, settled)
				after, moved := c.owners(), []string{}
				for item, at := range before {
					if after[item] != at {
						moved = append(moved, item)
					}
				}
				planned, loads := []string{}, map[string]int{}
				for _, m := range plan.Moves {
					planned = append(planned, m.Item)
				}
				slices.Sort(moved)
				if !slices.Equal(moved, planned) {
					c.t.Errorf("planned %v\nmoved %v", planned, moved)
				}
				for _, at := range after {
					loads[at]++
				}
				for _, m := range plan.Members {
					if loads[m.ID] != m.After {
						c.t.Errorf("%s has %d items; %d were planned", m.ID, loads[m.ID], m.After)
					}
				}
			})
		})
	}
}
