package leader

import (
	"maps"

	"github.com/coordd/coordd/actors/placement"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/messages"
)

// zoneMemory has the zone of each member that is, or was, registered in this term. A member that
// left before it is not known: its items have no zone that they prefer.
type zoneMemory map[string]string

// see takes the members in.
func (z zoneMemory) see(members messages.Table[facts.Member], absent map[string]absence) {
	for id, m := range members.All() {
		if !m.Unreadable {
			z[id] = m.Zone
		}
	}
	if len(z) > 2*members.Len()+1000 {
		maps.DeleteFunc(z, func(id, _ string) bool {
			_, away := absent[id]
			return !away && !members.Has(id)
		})
	}
}

// markZones tells the planner the members' zones. The function that it returns says who is in the
// zone in which an item was, of which a member may have a key still; nil: all are in one zone.
func (in *inputs) markZones(b *board) func(item, member string) placement.Place {
	zones := map[string]placement.Place{}
	for j := range b.members {
		_, m := in.members.At(j)
		b.members[j].Zone = m.Zone
		zones[m.Zone] = placement.At(j)
	}
	if len(zones) < 2 {
		return nil
	}
	return func(item, member string) placement.Place {
		if member == "" {
			r, _ := in.origin(item)
			member = r.from
		}
		if at, here := b.places[member]; here {
			return at
		}
		if zone, known := in.zones[member]; known {
			return zones[zone]
		}
		return placement.None
	}
}
