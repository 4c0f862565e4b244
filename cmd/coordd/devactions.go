package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/web"
)

// devActions are the buttons on dev's page.
type devActions struct {
	op      *actors.Operator
	members []*devMember
}

// trial is one of them, with what it does.
type trial struct {
	web.Action
	do func(context.Context, *devActions, *devMember) error
}

var (
	trialStart = trial{web.Action{Name: "start", Label: "Start again",
		Hint: "Starts its process again, under the same id."},
		func(_ context.Context, _ *devActions, m *devMember) error { return m.start() }}
	trialKill = trial{web.Action{Name: "kill", Label: "Kill",
		Hint: "Kills its process, as kill -9 does: nobody says goodbye for it."},
		func(_ context.Context, _ *devActions, m *devMember) error { return m.kill() }}
	trialFreeze = trial{web.Action{Name: "freeze", Label: "Freeze",
		Hint: "Stops its process, as kill -STOP does, until it is thawed."},
		func(_ context.Context, _ *devActions, m *devMember) error { return m.freeze(true) }}
	trialThaw = trial{web.Action{Name: "thaw", Label: "Thaw",
		Hint: "Lets its process go on."},
		func(_ context.Context, _ *devActions, m *devMember) error { return m.freeze(false) }}
	trialCutOff = trial{web.Action{Name: "cut-off", Label: "Cut off",
		Hint: "Breaks its connections to Consul, and each new one."},
		func(_ context.Context, _ *devActions, m *devMember) error {
			m.way.setCut(true)
			return nil
		}}
	trialReconnect = trial{web.Action{Name: "reconnect", Label: "Reconnect",
		Hint: "Lets it reach Consul again."},
		func(_ context.Context, _ *devActions, m *devMember) error {
			m.way.setCut(false)
			return nil
		}}
	trialDrain = trial{web.Action{Name: "drain", Label: "Drain",
		Hint: "Empties it, as coordd drain does."},
		func(ctx context.Context, a *devActions, m *devMember) error {
			return a.op.Drain(ctx, m.id)
		}}
	trialUndrain = trial{web.Action{Name: "undrain", Label: "Undrain",
		Hint: "Lets it have items again, as coordd undrain does."},
		func(ctx context.Context, a *devActions, m *devMember) error {
			return a.op.Undrain(ctx, m.id)
		}}

	trials = []trial{trialStart, trialKill, trialFreeze, trialThaw, trialCutOff, trialReconnect,
		trialDrain, trialUndrain}
)

// Offered lists what may be done with each member.
func (a *devActions) Offered(now actors.Status) []web.MemberActions {
	var all []web.MemberActions
	for _, m := range a.members {
		words, up, frozen, cut := m.state()
		of := web.MemberActions{Member: m.id, State: words}
		offer := func(yes bool, t trial) {
			if yes {
				of.Actions = append(of.Actions, t.Action)
			}
		}
		drained := slices.Contains(now.Drained, m.id)
		offer(!up, trialStart)
		offer(up, trialKill)
		offer(up && !frozen, trialFreeze)
		offer(up && frozen, trialThaw)
		offer(up && !cut, trialCutOff)
		offer(cut, trialReconnect)
		offer(up && !drained, trialDrain)
		offer(drained, trialUndrain)
		all = append(all, of)
	}
	return all
}

// Do does one of them.
func (a *devActions) Do(ctx context.Context, member, action string) error {
	m := slices.IndexFunc(a.members, func(m *devMember) bool { return m.id == member })
	t := slices.IndexFunc(trials, func(t trial) bool { return t.Name == action })
	if m < 0 || t < 0 {
		return fmt.Errorf("there is no member %q, or no action %q", member, action)
	}
	if err := trials[t].do(ctx, a, a.members[m]); err != nil {
		return fmt.Errorf("%s: %w", member, err)
	}
	return nil
}
