package web

import (
	"errors"
	"fmt"
	"time"

	"github.com/coordd/coordd/internal/facts"
)

// health tells why items may not run here now; nil: every member of this process holds its lease,
// and its record is locked by its session. It says nothing about the items, nor about who leads:
// status does. A member mends what it says by itself, so it is good for taking a host out of a
// balancer, and not for killing the process.
func (s *site) health(now time.Time) error {
	var errs []error
	for _, m := range s.Members {
		switch session := m.Session().Get(); {
		case session.ID == "":
			errs = append(errs,
				fmt.Errorf("%s has no session in Consul: Consul does not answer, or has not yet",
					m.ID()))
		case !session.Holds(now, 0):
			over := -session.Lease.Left(now)
			errs = append(errs,
				fmt.Errorf("the lease of %s has been over for %v: Consul does not answer, and %s "+
					"is silent since %s; its work is stopped", m.ID(), over.Round(time.Second),
					m.ID(), session.Lease.Start.UTC().Format("15:04:05 UTC")))
		default:
			switch ms := m.Membership().Get(); {
			case !ms.In(session.ID):
				errs = append(errs,
					fmt.Errorf("%s is not registered: its record in Consul is not locked by its "+
						"session (%s): it runs nothing until then",
						m.ID(), ms.Phase))
			case ms.Phase == facts.Leaving:
				errs = append(errs, fmt.Errorf("%s is leaving: it gives its items up", m.ID()))
			}
		}
	}
	return errors.Join(errs...)
}
