package store

import (
	"context"
	"maps"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"
)

// Doubt is why what an instance has told is not to be relied on.
type Doubt struct {
	// Since is the time of its last report, by its own clock, if its check has run out; else zero.
	Since time.Time
	// Warns is what it reports beside a check that warns.
	Warns string
}

// DoubtedInstances names the instances of a service whose checks have run out or warn. Consul keeps
// no time with a check; a report that begins with its time, in RFC 3339, tells it. While a check
// passes, the catalog may show a report of minutes ago, so instances whose check passes are left
// out. An instance is named until its agent takes it away, [ReapAfter] later. A token that may not
// read the service or its nodes sees none of them: that is no error.
func (s *consul) DoubtedInstances(ctx context.Context, service string) (map[string]Doubt, error) {
	doubts := map[string]Doubt{}
	c := call{op: "read checks", key: service, timeout: s.callTimeout,
		need: "service:read on " + service}
	err := s.do(ctx, c, func(ctx context.Context) error {
		checks, _, err := s.client.Health().Checks(service,
			(&api.QueryOptions{AllowStale: true}).WithContext(ctx))
		if err != nil {
			return err
		}
		passing := map[string]bool{} // by one agent, where requests go to several
		for _, check := range checks {
			if check.CheckID != (Instance{ID: check.ServiceID}).CheckID() {
				continue
			}
			last, ok := lastReport(check.Output)
			switch {
			case check.Status == api.HealthPassing:
				passing[check.ServiceID] = true
			case check.Status == api.HealthWarning:
				_, says, _ := strings.Cut(check.Output, ": ")
				doubts[check.ServiceID] = Doubt{Warns: says}
			case ok && last.After(doubts[check.ServiceID].Since):
				doubts[check.ServiceID] = Doubt{Since: last}
			}
		}
		maps.DeleteFunc(doubts, func(id string, _ Doubt) bool { return passing[id] })
		return nil
	})
	return doubts, err
}

// lastReport is the time of the last report, which an agent shows with a check that has run out.
func lastReport(output string) (at time.Time, ok bool) {
	report, ranOut := strings.CutPrefix(output,
		"TTL expired (last output before timeout follows): ")
	stamp, _, stamped := strings.Cut(report, ": ")
	if !ranOut || !stamped {
		return time.Time{}, false
	}
	at, err := time.Parse(time.RFC3339, stamp)
	return at.UTC(), err == nil
}
