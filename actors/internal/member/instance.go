package member

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// The tags of an instance. `leader.<service>.service.consul` is its leader, by Consul's DNS.
const (
	TagLeader   = "leader"   // it leads, and its duty may run
	TagDraining = "draining" // it is to be emptied: it stops, or an operator has ordered it
)

// Labels are what an instance says of its member that may change while the process runs.
type Labels struct {
	Tags  []string
	Items []string // published ones; nil: none are
}

// NewInstance is this process as Consul's agent shows it, without labels. Its id is that of no other
// process, a successor of the same member id included: so nobody reports for another one.
func NewInstance(b *actor.Base) store.Instance {
	i := store.Instance{
		ID: store.InstanceID(b.Service, b.ID, b.Process.Instance), Service: b.Service,
		CheckTTL: b.CheckTTL,
		Meta:     map[string]string{"coordd-member": store.FitMeta(b.ID)},
	}
	if b.Version != "" {
		i.Meta["version"] = store.FitMeta(b.Version)
	}
	if b.Zone != "" {
		i.Meta["zone"] = store.FitMeta(b.Zone)
	}
	i.Address, i.Port = whereabouts(b.Address)
	return i
}

// whereabouts is what of a member's address Consul is told. Where it is told no address it names
// the agent's node. A name without a port is none: it is the host's own, by default, and a resolver
// that knows Consul's names need not know it. Nor are addresses that mean somebody else to who asks
// on another host, loopback and unspecified ones; the latter an agent refuses.
func whereabouts(address string) (host string, port int) {
	host, digits, err := net.SplitHostPort(address)
	if err != nil {
		if ip := net.ParseIP(strings.Trim(address, "[]")); ip != nil {
			return own(ip.String()), 0
		}
		return "", 0
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return own(host), 0
	}
	return own(host), int(n)
}

// own is the host, or nothing where the agent's own address says more.
func own(host string) string {
	ip := net.ParseIP(host)
	if host == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified()) {
		return ""
	}
	return host
}

// with is an instance with these labels.
func (l Labels) with(i store.Instance) store.Instance {
	i.Tags = l.Tags
	if len(l.Items) > 0 {
		i.Meta = maps.Clone(i.Meta)
		publishItems(i.Meta, l.Items)
	}
	return i
}

// Published items are metadata: item-count, and as many ids as there is room for, with percent
// escapes and a space between, in items-1 to items-8, sorted.
const mostItemPairs = 8

func publishItems(meta map[string]string, items []string) {
	meta["item-count"] = strconv.Itoa(len(items))
	pair, value := 1, ""
	for _, id := range items {
		id = url.PathEscape(id)
		if len(id) > store.MostMeta {
			continue
		}
		switch {
		case value == "":
			value = id
		case len(value)+1+len(id) <= store.MostMeta:
			value += " " + id
		default:
			meta[fmt.Sprintf("items-%d", pair)] = value
			if pair++; pair > mostItemPairs {
				return
			}
			value = id
		}
	}
	if value != "" {
		meta[fmt.Sprintf("items-%d", pair)] = value
	}
}

// facts are what the labels and the check's output are made of.
type facts struct {
	leadership messages.Leadership
	membership messages.Membership
	holdings   messages.Holdings
	session    messages.Session
	brake      string // of the leader's plan
	drained    bool   // by an operator
	items      bool   // they are published
	duty       bool   // the host has a function for the leader
	tags       []string
}

// leads tells whether the instance is the leader's. Where the host has a function for that, it is
// once the function may run.
func (f facts) leads() bool {
	return f.leadership.Role == messages.Leading && (!f.duty || cleared(f.leadership))
}

// draining tells whether the member is to be emptied.
func (f facts) draining() bool { return f.drained || f.membership.Phase == messages.Leaving }

// labels are what the instance is to show.
func (f facts) labels() Labels {
	var l Labels
	if f.leads() {
		l.Tags = append(l.Tags, TagLeader)
	}
	if f.draining() {
		l.Tags = append(l.Tags, TagDraining)
	}
	l.Tags = append(l.Tags, f.tags...)
	if f.items {
		for id, item := range f.holdings.Items.All() {
			if item.Phase == messages.Running {
				l.Items = append(l.Items, id)
			}
		}
		slices.Sort(l.Items)
	}
	return l
}

// output is what is shown beside the check. Consul's catalog has it as of a few minutes ago, so it
// begins with the time.
func (f facts) output(now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d items run; the lease has %v left", now.UTC().Format(time.RFC3339),
		f.holdings.Running(), max(0, f.session.Lease.Left(now)).Round(time.Second))
	switch {
	case f.leads():
		b.WriteString("; leads")
	case f.leadership.Role == messages.Leading:
		b.WriteString("; leads, and its duty waits for its predecessor's lease")
	}
	if f.draining() {
		b.WriteString("; is being emptied")
	}
	if f.leadership.Role == messages.Leading && f.brake != "" {
		b.WriteString("; the brake is on: " + f.brake)
	}
	return b.String()
}
