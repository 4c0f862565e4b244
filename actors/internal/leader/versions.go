package leader

import (
	"fmt"
	"strings"

	"github.com/coordd/coordd/actors/placement"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/messages"
)

// newest is the version that a rollout brings: of those that members carry which may take items,
// the one that came last. A version came when the first of its members that are here now was
// registered. So an older member that is restarted as it was changes nothing while another one of
// its version is here, and a rollout back to an earlier version counts as one. Empty: nobody says a
// version.
func newest(members messages.Table[facts.Member], takes func(i int) bool) string {
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
func (in *inputs) markVersions(b *board) {
	v := newest(in.members, func(i int) bool { return !b.members[i].Drain })
	if v == "" {
		return
	}
	older := false
	for j := range b.members {
		_, m := in.members.At(j)
		b.members[j].Newest = m.WorkVersion == v || m.Idle || m.Unreadable ||
			protocol.CheckMemberID(b.members[j].ID) != nil
		older = older || !b.members[j].Newest
	}
	if older {
		b.version = v
	}
}

// prefers says what an item has preferred the member for to which it moves; empty: nothing.
func (b *board) prefers(move placement.Move) string {
	if move.To == placement.None || b.items[move.Item].Pin != placement.None {
		return ""
	}
	var what []string
	to := b.members[move.To.Member()]
	if b.version != "" && to.Newest {
		what = append(what, fmt.Sprintf("version %.40s", b.version))
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
