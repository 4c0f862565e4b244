package leader

import (
	"fmt"
	"strings"

	"github.com/coordd/coordd/actors/placement"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/messages"
)

// newest is the version that a rollout brings: of those that members carry which may take items,
// the one that came last. A version came when the first of its members that are here now was
// registered. So an older member that is restarted as it was changes nothing while another one of
// its version is here, and a rollout back to an earlier version counts as one. Empty: nobody says a
// version.
func newest(members messages.Table[messages.Member], takes func(i int) bool) string {
	first, taken := map[string]uint64{}, map[string]bool{}
	for i := range members.Len() {
		_, m := members.At(i)
		if m.Idle || m.Unreadable || m.WorkVersion == "" {
			continue
		}
		if at, known := first[m.WorkVersion]; !known || m.CreateIndex < at {
			first[m.WorkVersion] = m.CreateIndex
		}
		taken[m.WorkVersion] = taken[m.WorkVersion] || takes(i)
	}
	var last string
	for v, at := range first {
		if taken[v] && (last == "" || at > first[last] || at == first[last] && v > last) {
			last = v
		}
	}
	return last
}

// version tells the planner which members are of the newest version. Members that run no items, or
// whose record cannot be read, are no part of a rollout.
func (s *snapshot) version(out *sorted) {
	v := newest(s.members, func(i int) bool { return !out.members[i].Drain })
	if v == "" {
		return
	}
	older := false
	for j := range out.members {
		_, m := s.members.At(j)
		out.members[j].Newest = m.WorkVersion == v || m.Idle || m.Unreadable ||
			protocol.CheckMemberID(out.members[j].ID) != nil
		older = older || !out.members[j].Newest
	}
	if older {
		out.version = v
	}
}

// prefers says what an item has preferred the member for to which it moves; empty: nothing.
func (o *sorted) prefers(move placement.Move) string {
	if move.To == placement.None || o.items[move.Item].Pin != placement.None {
		return ""
	}
	var what []string
	to := o.members[move.To.Member()]
	if o.version != "" && to.Newest {
		what = append(what, fmt.Sprintf("version %.40s", o.version))
	}
	switch {
	case to.Zone == "":
	case move.For == placement.Stay:
		what = append(what, fmt.Sprintf("zone %.40s", to.Zone))
	case move.For == placement.Spread:
		what = append(what, fmt.Sprintf("zone %.40s for its group", to.Zone))
	}
	return strings.Join(what, " and ")
}
