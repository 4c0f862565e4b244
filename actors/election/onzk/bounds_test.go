package onzk_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// The bounds are those of docs/guarantees.md, section 9, and what a server at the next one's end is
// behind.
func TestALostLeaderIsSucceededWithinTheBound(t *testing.T) {
	for _, c := range []struct {
		timeout, delay, waits, lag time.Duration // delay as in Config, waits what comes of it
	}{
		{timeout: 10 * time.Second, waits: 10 * time.Second},
		{timeout: 10 * time.Second, delay: -1},
		{timeout: 10 * time.Second, delay: 3 * time.Second, waits: 3 * time.Second},
		{timeout: 4 * time.Second, waits: 4 * time.Second, lag: time.Second},
		{timeout: 40 * time.Second, delay: -1, lag: time.Second},
	} {
		t.Run(fmt.Sprint(c.timeout, c.delay, c.lag), func(t *testing.T) {
			var longest time.Duration
			for step := range 12 {
				synctest.Test(t, func(t *testing.T) {
					cfg := onzk.Config{SessionTimeout: c.timeout, LockDelay: c.delay}
					took := succession(t, cfg, c.lag, time.Duration(step)*c.timeout/12)
					longest = max(longest, took)
				})
			}
			bound := c.timeout + devzookeeper.Tick + c.waits + c.lag + 100*time.Millisecond
			if longest > bound {
				t.Errorf("the next one leads %v after its leader was lost; the bound is %v",
					longest, bound)
			}
			t.Logf("%v of %v", longest, bound)
		})
	}
}

// succession says how long it takes until the last of three leads, when the first, who led, and the
// second, who is next in line, are lost together.
func succession(t *testing.T, cfg onzk.Config, lag, later time.Duration) time.Duration {
	s := newEmbedded(t)
	defer s.zoo.Close()
	var ways []*devzookeeper.Way
	var stand []*election.Election
	for i := range 3 {
		way := s.zoo.Way(devzookeeper.Weather{Lag: lag})
		cfg.Dial = way.Dial
		conn := s.connect(cfg)
		defer conn.Close()
		e := s.nominate(conn, fmt.Sprint("n", i))
		role := election.Following
		if i == 0 {
			role = election.Leading
		}
		becomes(t, e, role)
		ways, stand = append(ways, way), append(stand, e)
	}
	time.Sleep(cfg.SessionTimeout + later)
	begin := time.Now()
	ways[0].Sever()
	ways[1].Sever()
	becomes(t, stand[2], election.Leading)
	took := time.Since(begin)
	s.zoo.Settle()
	for _, e := range stand {
		e.Resign()
		<-e.Done()
	}
	return took
}
