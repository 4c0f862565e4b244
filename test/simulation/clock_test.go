package simulation_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/coordd/coordd/actors"
)

// Clocks that run at different rates. All goroutines of a bubble have one clock, so a member whose
// clock is slow is played by one whose settings are that much longer, and who tells others the
// figures that it believes in: its link puts the TTL that it was given in place of the one that its
// clock makes of it, in the session, in its acks and in the term. Slow clocks are all that is
// needed: beside them the others are the fast ones.

// slowest is the rate of the slowest clock: with stopping at once, a lease margin of a tenth of the
// TTL has room for no slower one.
const slowest = 0.91

// clocks draws how slow the slow clocks of a run are, by dice of its own; work then takes no longer
// to stop than what is left of the lease margin.
func (s *settings) clocks(profile string, seed uint64) {
	dice := rand.New(rand.NewPCG(seed, 8))
	if dice.IntN(2) == 0 && profile != "skewed" {
		return
	}
	s.slow = slowest + 0.06*dice.Float64()*dice.Float64()
	if dice.IntN(2) == 0 || profile == "skewed" {
		// Whoever waits for a lease begins as soon as the wait is over.
		s.long, s.merge, s.workerSoak = 0, 50*time.Millisecond, 10*time.Millisecond
	}
	lease, margin := s.ttl, s.margin
	if s.lease > 0 {
		lease, margin = s.lease, s.lease/10
	}
	s.lag = min(s.lag, lease-time.Duration(float64(lease-margin)/s.slow)-time.Millisecond)
}

// slowed tells whether the clock of a process's host is slow. A twin is on another host.
func (p *process) slowed() bool {
	host := p.id
	if p.twin {
		host += " of its twin"
	}
	return p.w.plan.settings.slow > 0 && hash(fmt.Sprint(host, p.w.plan.seed))%2 == 0
}

// slowDown gives a process with a slow clock settings that are longer by its rate. The margin is a
// tenth of the lease, as it is by default; so it is for the others, whose leases the slow ones wait
// for.
func (p *process) slowDown(c *actors.Config) {
	rate := p.w.plan.settings.slow
	if rate == 0 {
		return
	}
	c.LeaseMargin = c.Lease / 10
	if !p.slowed() {
		return
	}
	p.told, c.TTL = c.TTL, time.Duration(float64(c.TTL)/rate)
	p.toldLease, c.Lease = c.Lease, time.Duration(float64(c.Lease)/rate)
	p.ttl, p.lease = c.TTL, c.Lease
	for _, d := range []*time.Duration{
		&c.LeaseMargin, &c.LeaderSoak, &c.Merge, &c.WorkerSoak, &c.StopTimeout,
	} {
		*d = time.Duration(float64(*d) / rate)
	}
	p.margin = c.LeaseMargin
}

// tell puts the TTL and the lease that a process with a slow clock was given in place of those that
// it has by it.
func (p *process) tell(path string, body []byte) []byte {
	switch {
	case p.told == 0:
	case strings.HasPrefix(path, "/v1/session/create"):
		own, told := fmt.Sprintf("%q", p.ttl), fmt.Sprintf("%q", p.told)
		return bytes.ReplaceAll(body, []byte(own), []byte(told))
	case path == "/v1/txn":
		var ops []map[string]map[string]any
		decoder := json.NewDecoder(bytes.NewReader(body))
		decoder.UseNumber()
		if decoder.Decode(&ops) != nil {
			return body
		}
		own, told := fmt.Sprintf(`"ttl":%d`, p.lease), fmt.Sprintf(`"ttl":%d`, p.toldLease)
		changed := false
		for _, op := range ops {
			text, _ := op["KV"]["Value"].(string)
			key, _ := op["KV"]["Key"].(string)
			if !strings.HasPrefix(key, p.w.root+"acks/") && key != p.w.root+"term" {
				continue
			}
			value, err := base64.StdEncoding.DecodeString(text)
			if err == nil && bytes.Contains(value, []byte(own)) {
				op["KV"]["Value"] = bytes.ReplaceAll(value, []byte(own), []byte(told))
				changed = true
			}
		}
		if changed {
			if body, err := json.Marshal(ops); err == nil {
				return body
			}
		}
	}
	return body
}
