package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/actors/web"
)

// devActions are the buttons on dev's page.
type devActions struct {
	op      *operator.Client
	members []*devMember
}

// trials are what may be done with a member: when a button is there, and what it does.
var trials = []struct {
	web.Action
	offered func(s devState) bool
	do      func(context.Context, *operator.Client, *devMember) error
}{
	{web.Action{Name: "start", Label: "Start again",
		Hint: "Starts its process again, under the same id."},
		func(s devState) bool { return !s.up },
		func(_ context.Context, _ *operator.Client, m *devMember) error { return m.start() }},
	{web.Action{Name: "kill", Label: "Kill",
		Hint: "Kills its process, as kill -9 does: nobody says goodbye for it."},
		func(s devState) bool { return s.up },
		func(_ context.Context, _ *operator.Client, m *devMember) error { return m.kill() }},
	{web.Action{Name: "freeze", Label: "Freeze",
		Hint: "Stops its process, as kill -STOP does, until it is thawed."},
		func(s devState) bool { return s.up && !s.frozen },
		func(_ context.Context, _ *operator.Client, m *devMember) error { return m.freeze(true) }},
	{web.Action{Name: "thaw", Label: "Thaw", Hint: "Lets its process go on."},
		func(s devState) bool { return s.up && s.frozen },
		func(_ context.Context, _ *operator.Client, m *devMember) error { return m.freeze(false) }},
	{web.Action{Name: "cut-off", Label: "Cut off",
		Hint: "Breaks its connections to Consul, and each new one."},
		func(s devState) bool { return s.up && !s.cut },
		func(_ context.Context, _ *operator.Client, m *devMember) error {
			m.way.setCut(true)
			return nil
		}},
	{web.Action{Name: "reconnect", Label: "Reconnect", Hint: "Lets it reach Consul again."},
		func(s devState) bool { return s.cut },
		func(_ context.Context, _ *operator.Client, m *devMember) error {
			m.way.setCut(false)
			return nil
		}},
	{web.Action{Name: "drain", Label: "Drain", Hint: "Empties it, as coordd drain does."},
		func(s devState) bool { return s.up && !s.drained },
		func(ctx context.Context, o *operator.Client, m *devMember) error {
			return o.Drain(ctx, m.id)
		}},
	{web.Action{Name: "undrain", Label: "Undrain",
		Hint: "Lets it have items again, as coordd undrain does."},
		func(s devState) bool { return s.drained },
		func(ctx context.Context, o *operator.Client, m *devMember) error {
			return o.Undrain(ctx, m.id)
		}},
}

// Offered lists what may be done with each member.
func (a *devActions) Offered(now operator.Status) []web.MemberActions {
	var all []web.MemberActions
	for _, m := range a.members {
		s := m.state()
		s.drained = slices.Contains(now.Drained, m.id)
		of := web.MemberActions{Member: m.id, State: s.words()}
		for _, t := range trials {
			if t.offered(s) {
				of.Actions = append(of.Actions, t.Action)
			}
		}
		all = append(all, of)
	}
	return all
}

// Do does one of them.
func (a *devActions) Do(ctx context.Context, member, action string) error {
	for _, m := range a.members {
		for _, t := range trials {
			if m.id == member && t.Name == action {
				if err := t.do(ctx, a.op, m); err != nil {
					return fmt.Errorf("%s: %w", member, err)
				}
				return nil
			}
		}
	}
	return fmt.Errorf("there is no member %q, or no action %q", member, action)
}
