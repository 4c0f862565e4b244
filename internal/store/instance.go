package store

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"
)

// Instance is a process as its Consul agent shows it: an instance of a service with one check,
// which turns critical when nobody has reported for CheckTTL. Consul ends the sessions that are
// bound to the check with it: so it notices the end of a process in CheckTTL, where it lets a
// session that nobody renews live for twice its TTL.
type Instance struct {
	ID      string // unique at the agent: of this process and no other
	Service string
	Address string // empty: the agent's own
	Port    int
	Tags    []string
	Meta    map[string]string
	// CheckTTL is how long after a report the check passes. Consul 1.22 ended the session 3.03 s
	// after the last report with 3 s, and 0.7 to 1 s after it with 1 s.
	CheckTTL time.Duration
}

// ReapAfter is when the agent deregisters an instance whose process has not come back: Consul takes
// a minute at least, and looks every 30 s.
const ReapAfter = time.Minute

// Gossip is how long Consul's agents take to notice that one of them has gone (serfHealth): 5.5 to
// 7.3 s with their settings for a LAN.
const Gossip = 8 * time.Second

// CheckID is the id of the instance's check.
func (i Instance) CheckID() string { return "service:" + i.ID }

// ErrNoCheck is returned, along with [ErrUnreachable], by [Store.CreateSession] when a check that
// the session is to be bound to is not in the catalog, or critical there. The agent writes it there
// a moment after it was registered, if its token may.
var ErrNoCheck = errors.New("the check is not passing in Consul's catalog")

// MostMeta is how long a value of an instance's metadata may be, in bytes: an agent refuses the
// registration of an instance with more.
const MostMeta = 512

// FitMeta makes a text fit for metadata: short enough, and such that the agent shows it as it was
// sent. JSON has U+FFFD for each byte that is no UTF-8.
func FitMeta(text string) string {
	text = string([]rune(text))
	if len(text) > MostMeta {
		text = strings.ToValidUTF8(text[:MostMeta], "")
	}
	return text
}

// RegisterInstance registers the instance at the agent, passing. One that is registered keeps the
// state of its check, whose TTL begins anew, and the sessions that are bound to it; the output that
// was reported last comes into the catalog with it.
func (s *consul) RegisterInstance(ctx context.Context, i Instance) error {
	c := call{op: "register instance", key: i.ID, timeout: s.timeoutOf(ctx),
		need: "service:write on " + i.Service}
	return s.do(ctx, c, func(ctx context.Context) error {
		err := s.client.Agent().ServiceRegisterOpts(&api.AgentServiceRegistration{
			ID: i.ID, Name: i.Service, Address: i.Address, Port: i.Port, Tags: i.Tags, Meta: i.Meta,
			Check: &api.AgentServiceCheck{
				CheckID: i.CheckID(), Name: "the process reports", TTL: i.CheckTTL.String(),
				Status:                         api.HealthPassing,
				DeregisterCriticalServiceAfter: ReapAfter.String(),
			},
		}, api.ServiceRegisterOpts{}.WithContext(ctx))
		if err == nil {
			s.registered.Store(i.ID, tokenOf(ctx))
		}
		return err
	})
}

// ReportInstance says that the process is there; output is shown beside the check, and changes to
// it alone cost Consul no write for minutes; that it warns, or not any more, costs one.
// [ErrNotFound]: the agent knows no such check. It was started anew without its data, or it is
// another one: requests go through a load balancer. Or it has the check with a token that was
// replaced since, with which it could write no change of it.
func (s *consul) ReportInstance(ctx context.Context, i Instance, output string,
	warns bool) error {
	c := call{op: "report check", key: i.CheckID(), timeout: s.timeoutOf(ctx),
		need: "service:write on " + i.Service}
	status := api.HealthPassing
	if warns {
		status = api.HealthWarning
	}
	return s.do(ctx, c, func(ctx context.Context) error {
		err := s.client.Agent().UpdateTTLOpts(i.CheckID(), output, status,
			(&api.QueryOptions{}).WithContext(ctx))
		if by, ok := s.registered.Load(i.ID); err == nil && ok && by != tokenOf(ctx) {
			return &callError{kind: ErrNotFound, op: c.String(), text: "the agent writes it into " +
				"the catalog with an earlier token"}
		}
		return unknownHere(c, err)
	})
}

// DeregisterInstance takes the instance and its check away. One that is gone already is no error.
func (s *consul) DeregisterInstance(ctx context.Context, i Instance) error {
	c := call{op: "deregister instance", key: i.ID, timeout: s.callTimeout,
		need: "service:write on " + i.Service}
	err := s.do(ctx, c, func(ctx context.Context) error {
		return unknownHere(c, s.client.Agent().ServiceDeregisterOpts(i.ID,
			(&api.QueryOptions{}).WithContext(ctx)))
	})
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// unknownHere is the answer of an agent that does not know what it was asked about.
func unknownHere(c call, err error) error {
	status, ok := errors.AsType[api.StatusError](err)
	if !ok || status.Code != http.StatusNotFound || page(status.Body) {
		return err
	}
	return &callError{kind: ErrNotFound, op: c.String(), text: "this Consul agent does not know it"}
}

// InstanceID makes an id of parts: it keeps of them what needs no escape in a URL.
func InstanceID(parts ...string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '.' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' ||
			r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, strings.Join(parts, "-"))
}
