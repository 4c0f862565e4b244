package leader

import (
	"maps"

	"github.com/coordd/coordd/actors/placement"
	"github.com/coordd/coordd/messages"
)

// zoneMemory has the zone of each member that is, or was, registered in this term. A member that
// left before it is not known: its items have no zone that they prefer.
type zoneMemory struct {
	of    map[string]string
	index uint64 // of the members that were looked at last
}

func (z *zoneMemory) see(members messages.Members, absent map[string]absence) map[string]string {
	if z.of == nil {
		z.of = map[string]string{}
	}
	if z.index == members.Index {
		return z.of
	}
	z.index = members.Index
	for id, m := range members.Items.All() {
		if !m.Unreadable {
			z.of[id] = m.Zone
		}
	}
	if len(z.of) > 2*members.Items.Len()+1000 {
		maps.DeleteFunc(z.of, func(id, _ string) bool {
			_, away := absent[id]
			return !away && !members.Items.Has(id)
		})
	}
	return z.of
}

// near tells the planner the members' zones. The function that it returns says who is in the zone
// in which an item was, of which a member may have a key still; nil: all are in one zone.
func (s *snapshot) near(out *sorted,
	place map[string]placement.Place) func(item, member string) placement.Place {
	in := map[string]placement.Place{}
	for j := range out.members {
		_, m := s.members.At(j)
		out.members[j].Zone = m.Zone
		in[m.Zone] = placement.At(j)
	}
	if len(in) < 2 {
		return nil
	}
	return func(item, member string) placement.Place {
		if member == "" {
			r, _ := s.origin(item)
			member = r.from
		}
		if at, here := place[member]; here {
			return at
		}
		if zone, known := s.zones[member]; known {
			return in[zone]
		}
		return placement.None
	}
}
