package leader

import (
	"maps"
	"slices"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// assignmentCache is the leader's copy of the assignment keys. The leader reads all of them when
// its leadership begins. Afterwards the answers to its own transactions keep the cache up to date,
// and a member that has raised its ack has its keys read again. Nobody else creates keys, so an
// item without a key here stays without one until this leader acts.
type assignmentCache struct {
	members map[string]map[string]messages.Assignment
}

func newAssignmentCache() *assignmentCache {
	return &assignmentCache{members: map[string]map[string]messages.Assignment{}}
}

// load replaces the whole cache.
func (c *assignmentCache) load(keys protocol.Keys, entries []store.Entry,
	odd *protocol.StrangeKeys) {
	clear(c.members)
	c.enter(keys, entries, odd)
}

// loadMember replaces what is known of one member.
func (c *assignmentCache) loadMember(keys protocol.Keys, member string, entries []store.Entry,
	odd *protocol.StrangeKeys) {
	delete(c.members, member)
	c.enter(keys, entries, odd)
}

func (c *assignmentCache) enter(keys protocol.Keys, entries []store.Entry,
	odd *protocol.StrangeKeys) {
	for e, a := range protocol.Read(entries, keys.ReadAssignment, odd.Skip) {
		c.set(a.Member, a.Item, actor.AssignmentOf(e, a))
	}
}

func (c *assignmentCache) set(member, item string, a messages.Assignment) {
	items := c.members[member]
	if items == nil {
		items = map[string]messages.Assignment{}
		c.members[member] = items
	}
	items[item] = a
}

// expect makes room for what is new at members that have nothing: a first plan gives them so much
// that their maps would grow ten times.
func (c *assignmentCache) expect(outcomes []store.Outcome) {
	granted := map[string]int{}
	for _, o := range outcomes {
		if what := o.Unit.Tag.(order); what.kind == orderGrant && o.Err == nil &&
			c.members[what.to] == nil {
			granted[what.to]++
		}
	}
	for member, n := range granted {
		c.members[member] = make(map[string]messages.Assignment, n)
	}
}

func (c *assignmentCache) drop(member, item string) {
	if items := c.members[member]; items != nil {
		delete(items, item)
		if len(items) == 0 {
			delete(c.members, member)
		}
	}
}

// holders names the members that have keys, in order.
func (c *assignmentCache) holders() []string { return slices.Sorted(maps.Keys(c.members)) }
