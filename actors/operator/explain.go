package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/words"
)

// Explanation is what there is to say of one item.
type Explanation struct {
	ItemStatus
	// There says why the item is where it is; empty: it has no owner, is on its way, or nothing is
	// known.
	There string `json:"there,omitempty"`
	// ThereSince is when the leader gave the item to its owner, by the leader's clock; zero: it has
	// no owner, has a later grant because its owner has registered anew, or the event log does not
	// go back so far.
	ThereSince time.Time `json:"there_since,omitzero"`
	// Next says what would have to happen for its work to run, or to run elsewhere.
	Next string `json:"next,omitempty"`
}

// Explain says why an item is where it is, what happened to it, and what would have to happen for
// it to run, as far as Consul tells. Errors: [ErrNotFound] for an item that is not in the workload
// and has no owner, [ErrInvalid], [ErrUnreachable], [ErrDenied].
func (c *Client) Explain(ctx context.Context, id string) (Explanation, error) {
	if err := CheckID(id); err != nil {
		return Explanation{}, err
	}
	i, err := c.item(ctx, id, false)
	if err != nil {
		return Explanation{}, err
	}
	if i.Cause == CausePlacing || i.Cause == CauseNoRoom {
		// Only the weights of all items tell whether there is room.
		if i, err = c.item(ctx, id, true); err != nil {
			return Explanation{}, err
		}
	}
	var log EventLog
	if i.Member != "" {
		// Without it no more is missing than since when the item is there.
		log, _ = c.EventLog(ctx)
	}
	return i.Explained(log), nil
}

// Explained says why the item is where it is, since when, as far as the event log goes back, and
// what would have to happen for it to run.
func (i ItemStatus) Explained(log EventLog) Explanation {
	e := Explanation{ItemStatus: i, Next: next(i)}
	if !i.anew {
		e.ThereSince = log.given(i.ID, i.Member)
	}
	switch {
	case i.Member == "" || i.Cause == CauseMoves || i.Cause == CauseLeaves:
		return e // its reason is that for leaving
	case i.Pinned == i.Member:
		e.There = "it is pinned there"
	case i.Preferred == i.Member:
		e.There = "it is preferred there"
	default:
		if e.There = WordsOf(i.Reason).There; e.There != "" && i.anew {
			e.There = "its owner has registered anew; before that, " + e.There
		}
	}
	if e.There != "" && i.Prefers != "" {
		e.There += "; it prefers " + i.Prefers
	}
	return e
}

// given is when an item was given last to the member that has it; zero: the log does not say.
func (l EventLog) given(item, member string) time.Time {
	for _, e := range slices.Backward(l.events) {
		gives := e.Kind == "granted" || e.Kind == "taken-over"
		if gives && e.To == member && slices.Contains(e.Items, item) {
			return e.Time
		}
	}
	return time.Time{}
}

func (c *Client) item(ctx context.Context, id string, weighed bool) (ItemStatus, error) {
	v, err := c.view(ctx, weighed)
	if err != nil {
		return ItemStatus{}, err
	}
	items, _, _ := v.items()
	for _, i := range items {
		if i.ID == id {
			n := slices.IndexFunc(v.assigned, func(key keyView) bool { return key.Item == id })
			if n < 0 || i.State != ItemRunning || v.changed != nil {
				return i, nil
			}
			e, _, _, err := c.store.Get(ctx, c.keys.WorkItem(id), store.Default)
			v.compare(&i, v.assigned[n], e.ModifyIndex)
			return i, err
		}
	}
	return ItemStatus{}, fmt.Errorf("item %q of service %q: %w: it is not in the workload",
		id, c.keys.Service(), ErrNotFound)
}

// compare tells whether an item runs with another payload than the workload has, which was changed
// at that index. Its work knows the one of its start, of the last order to restart it, of the last
// change that its owner was told of, or one that its owner names.
func (v *view) compare(i *ItemStatus, key keyView, changed uint64) {
	if i.State == ItemRunning && !i.Removed && changed > max(i.Grant, key.Restart, key.Changed,
		v.members[i.Member].reports[i.ID].Read) {
		i.Outdated = true
		i.Why = "it runs with an older payload or weight: they were changed since it was started"
	}
}

// next says what would have to happen for an item to run, or to run elsewhere: one text for each
// state and cause.
func next(i ItemStatus) string {
	switch i.State {
	case ItemRunning:
		if i.Removed {
			return "it was removed from the workload: its owner is told to give it up"
		} else if i.Outdated {
			return "\"coordd restart " + i.ID + "\" has it run with the newest one"
		}
		return ""
	case ItemLooping:
		if len(i.FailedAt) > 0 {
			return "it was tried at " + i.Member + " because its work failed at " +
				strings.Join(i.FailedAt, ", ") + ". Look at what it writes, and mend it or its " +
				"payload: when it has failed here too often as well it is quarantined"
		}
		return "it is started again after pauses of up to 15 s; it counts as running when it has " +
			"lasted for 30 s. Look at what it writes at " + i.Member +
			", and mend it or its payload"
	case ItemStarting:
		if i.Restarts > 0 {
			return i.Member + " starts it again, after a pause of up to 15 s"
		}
		return "its owner reads its payload and starts it, within a second as a rule. Where that " +
			"takes longer, look at the log of " + i.Member
	case ItemStopping:
		return "its work ends, within the " + words.Setting("Config.StopTimeout") + " of " + i.Member +
			", and then " + then(i)
	case ItemFailing:
		return "it runs at " + i.Member + "; its check passes again, or it is started again. Look " +
			"at what it writes there"
	case ItemStuck:
		return "its work ends, or the process of " + i.Member + " does: end that, for nothing " +
			"else ends a function; and then " + then(i)
	case ItemQuarantined:
		return "an operator mends it or its payload, and says \"coordd restart " + i.ID +
			"\"; or another member is started, where it is tried"
	}
	return ends(i)
}

// ends says what would end the cause of an item's state.
func ends(i ItemStatus) string {
	switch i.Cause {
	case CauseSilent:
		return i.Member + " is heard again, or its session ends and the leader gives it to " +
			"another member. Look at " + i.Member + ": its process may hang, and its work with it"
	case CauseBehind:
		return i.Member + " can write its states again. Look at its log, and at the rights of " +
			"its token (docs/acl.md)"
	case CauseUntold:
		return i.Member + " says what it does, within seconds as a rule. Where that takes " +
			"longer, look at the log of " + i.Member
	case CauseUnnamed:
		return "fewer items of " + i.Member + " fail or start: then it is known whether it runs"
	case CauseNoLeader:
		return "a member is started, or one that runs reaches Consul and takes the leadership"
	case CauseFrozen:
		return `an operator says "coordd thaw"`
	case CauseBrake:
		return `what is gone comes back, or an operator says "coordd override"`
	case CauseNoMembers:
		return "a member that takes items is started, or \"coordd undrain\" is said"
	case CausePinned:
		return pinnedAway(i)
	case CauseRefused:
		return "Consul takes what the leader writes: look at the rights of the leader's token " +
			"(docs/acl.md)"
	case CauseNoRoom:
		text := "a member with room for it is started, one gets a larger " +
			words.Setting("Config.Capacity") + ", or items are removed"
		if i.Member != "" {
			text += ", or " + i.Member + " is back"
		}
		return text
	case CauseLost, CauseKept:
		text := "the leader gives it to another member"
		if !i.Until.IsZero() {
			text += " at " + utcText(i.Until) + " at the latest"
		}
		return text + ", or " + i.Member + " is back before"
	case CausePredecessor:
		text := i.Member + " starts it when that lease is over"
		if !i.Until.IsZero() {
			text += ", at " + utcText(i.Until)
		}
		return text
	}
	return "the leader gives it to a member"
}

// then is what follows the end of work that is to stop.
func then(i ItemStatus) string {
	switch i.Cause {
	case CauseRestart:
		return i.Member + " starts it again"
	case CauseLeaves:
		return "nobody runs it for now"
	}
	return "the leader gives it to another member"
}

// pinnedAway says what an item takes that cannot go to where it is pinned to.
func pinnedAway(i ItemStatus) string {
	return fmt.Sprintf("%s comes, or takes items, or has room; or \"coordd unpin %s\" is said",
		i.Pinned, i.ID)
}
