package member

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/store"
)

// The tags of an instance. `leader.<service>.service.consul` is its leader, by Consul's DNS.
const (
	TagLeader   = "leader"   // it leads, and its duty may run
	TagDraining = "draining" // it is to be emptied: it stops, or an operator has ordered it
)

// NewInstance is this process as Consul's agent shows it, without tags. Its id is that of no other
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

// instanceFacts are what the tags and the check's output are made of.
type instanceFacts struct {
	leadership facts.Leadership
	membership facts.Membership
	running    int // items
	session    facts.Session
	brake      string // of the leader's plan
	drained    bool   // by an operator
	behind     bool   // see Told.Behind
	duty       bool   // the host has a function for the leader
	tags       []string
}

// leads tells whether the instance is the leader's. Where the host has a function for that, it is
// once the function may run.
func (f instanceFacts) leads() bool {
	return f.leadership.Role == facts.Leading && (!f.duty || cleared(f.leadership))
}

// draining tells whether the member is to be emptied.
func (f instanceFacts) draining() bool { return f.drained || f.membership.Phase == facts.Leaving }

// shown are the tags of the instance.
func (f instanceFacts) shown() (tags []string) {
	if f.leads() {
		tags = append(tags, TagLeader)
	}
	if f.draining() {
		tags = append(tags, TagDraining)
	}
	return append(tags, f.tags...)
}

// output is what is shown beside the check. Consul's catalog has it as of a few minutes ago, so it
// begins with the time.
func (f instanceFacts) output(now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d items run; the lease has %v left", now.UTC().Format(time.RFC3339),
		f.running, max(0, f.session.Lease.Left(now)).Round(time.Second))
	switch {
	case f.leads():
		b.WriteString("; leads")
	case f.leadership.Role == facts.Leading:
		b.WriteString("; leads, and its duty waits for its predecessor's lease")
	}
	if f.draining() {
		b.WriteString("; is being emptied")
	}
	if f.leadership.Role == facts.Leading && f.brake != "" {
		b.WriteString("; the brake is on: " + f.brake)
	}
	if f.behind {
		b.WriteString("; the states of its work in Consul are old")
	}
	return b.String()
}
