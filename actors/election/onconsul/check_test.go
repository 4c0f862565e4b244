package onconsul_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/internal/asynclog"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// with connects with these settings, by way of next.
func (s *embedded) with(cfg onconsul.Config, next http.RoundTripper) *onconsul.Conn {
	s.t.Helper()
	cfg.Client = devconsul.ClientOver(next)
	if cfg.Logger == nil {
		cfg.Logger = s.log
	}
	conn, err := onconsul.Connect(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	return conn
}

// bound returns the checks that the session of a connection is bound to.
func (s *embedded) bound(c *onconsul.Conn) int {
	s.t.Helper()
	info, _, err := s.consul.Client().Session().Info(c.Contact().Get().Session, nil)
	if err != nil || info == nil {
		s.t.Fatalf("the session: %v, %v", info, err)
	}
	return len(info.ServiceChecks)
}

func leads(s election.Status) bool { return s.Role == election.Leading }

// The bound holds at several settings, at whatever moment between two renewals and reports a leader
// is lost, and also if those next in line are lost with it. The next one leads only when the lost
// one's duty is over.
func TestALostLeaderIsSucceededWithinTheBound(t *testing.T) {
	for name, cfg := range map[string]onconsul.Config{
		"defaults":                            {},
		"a short lease":                       {Lease: 3 * time.Second, CheckTTL: time.Second},
		"no check":                            {CheckTTL: onconsul.NoCheck},
		"a short lock-delay, and so no check": {LockDelay: time.Second},
		"a long ttl":                          {TTL: time.Hour, Lease: 10 * time.Second},
	} {
		for n := range 10 {
			synctest.Test(t, func(t *testing.T) {
				s := newEmbedded(t)
				defer s.consul.Close()
				if name == "a long ttl" && n > 0 {
					return // an hour
				}
				way := &wire{next: s.consul.RoundTripper(), server: s}
				one, two := s.with(cfg, way), s.with(cfg, s.consul.RoundTripper())
				defer one.Close()
				defer two.Close()
				var works atomic.Bool
				a := nominated(t, one, election.Config{Election: contested, Name: "a",
					Logger: s.log, Lead: func(ctx context.Context, _ election.Status) error {
						works.Store(true)
						<-ctx.Done()
						works.Store(false)
						return nil
					}})
				if _, err := a.State().Wait(t.Context(), leads); err != nil {
					t.Fatal(err)
				}
				var others []*election.Election
				for range 5 * (n % 2) {
					conn := s.with(cfg, way)
					defer conn.Close()
					others = append(others, nominated(t, conn, election.Config{
						Election: contested, Name: "other", Lead: untilTold, Logger: s.log}))
				}
				b := nominated(t, two, election.Config{Election: contested, Name: "b",
					Lead: untilTold, Logger: s.log})
				time.Sleep(time.Minute + time.Duration(n)*370*time.Millisecond)
				way.sever()
				lost := time.Now()
				if _, err := b.State().Wait(t.Context(), leads); err != nil {
					t.Fatal(err)
				}
				bound, _ := cfg.TakeOver()
				if took := time.Since(lost); took > bound || works.Load() {
					t.Errorf("%s: b leads after %v, within %v; a still works: %v", name, took,
						bound, works.Load())
				} else if n == 0 {
					t.Logf("%s: %v, the bound is %v", name, took, bound)
				}
				way.mend()
				for _, e := range append(others, a) {
					<-e.Done()
				}
				b.Resign()
				<-b.Done()
			})
		}
	}
}

// Where the agent takes no check an election goes on without, and the log says what that costs.
func TestAnElectionGoesOnWithoutACheckWhereTheAgentTakesNone(t *testing.T) {
	for name, answer := range transport.TakesNoCheck {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newEmbedded(t)
				defer s.consul.Close()
				var text bytes.Buffer
				log := asynclog.Wrap(slog.New(slog.NewTextHandler(&text, nil)))
				c := s.with(onconsul.Config{Logger: log},
					s.agentOnly("/v1/agent/service/register", answer))
				a := nominated(t, c, election.Config{Election: contested, Name: "a",
					Lead: untilTold, Logger: s.log})
				time.Sleep(time.Minute)
				if now := a.State().Get(); now.Role != election.Leading || s.bound(c) != 0 {
					t.Errorf("it is told %v, and its session is bound to %d checks", now,
						s.bound(c))
				}
				a.Resign()
				<-a.Done()
				c.Close()
				asynclog.Flush(log, time.Second)
				if says := text.String(); !strings.Contains(says,
					"msg=no-check") || !strings.Contains(says, "after up to 20s in place of 6.5s") {
					t.Errorf("the log does not say what that costs:\n%s", says)
				}
			})
		})
	}
}

// agentOnly is a way to this Consul on which answer answers what is below path, unless it returns
// nothing.
func (s *embedded) agentOnly(path string,
	answer func(*http.Request) (*http.Response, error)) http.RoundTripper {
	return transport.Func(func(r *http.Request) (*http.Response, error) {
		if strings.HasPrefix(r.URL.Path, path) {
			if resp, err := answer(r); resp != nil || err != nil {
				return resp, err
			}
		}
		return s.consul.RoundTripper().RoundTrip(r)
	})
}

// The process is an instance of the service while it needs a session, and no longer.
func TestACandidateIsAnInstanceOfItsService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEmbedded(t)
		defer s.consul.Close()
		for prefix, service := range map[string]string{"": "election", "a/b/": "a-b"} {
			instances := func() int {
				all, _, err := s.consul.Client().Health().Service(service, "", true, nil)
				if err != nil {
					t.Fatal(err)
				}
				return len(all)
			}
			c := s.with(onconsul.Config{Prefix: prefix, Name: "here"}, s.consul.RoundTripper())
			f, err := election.New(c, election.Config{Election: contested, Logger: s.log})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Follow(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if n := instances(); n != 0 {
				t.Errorf("a follower is %d instances of %s", n, service)
			}
			a := nominated(t, c, election.Config{Election: contested, Name: "a", Lead: untilTold,
				Logger: s.log})
			time.Sleep(time.Minute)
			if n := instances(); n != 1 {
				t.Errorf("a candidate is %d instances of %s", n, service)
			}
			a.Resign()
			<-a.Done()
			f.Resign()
			<-f.Done()
			c.Close()
			if n := instances(); n != 0 {
				t.Errorf("a connection that is closed is %d instances of %s", n, service)
			}
		}
	})
}

func TestACheckNeedsALockDelayOfTheLease(t *testing.T) {
	for _, c := range []struct {
		cfg  onconsul.Config
		want string
	}{
		{onconsul.Config{LockDelay: 9 * time.Second, CheckTTL: 5 * time.Second}, "LockDelay"},
		{onconsul.Config{TTL: time.Hour, CheckTTL: 5 * time.Second}, "LockDelay"},
		{onconsul.Config{Lease: time.Second}, "Lease"},
		{onconsul.Config{Lease: 11 * time.Second}, "Lease"},
		{onconsul.Config{CheckTTL: 11 * time.Second}, "CheckTTL"},
		{onconsul.Config{CheckTTL: time.Millisecond}, "CheckTTL"},
	} {
		c.cfg.Client = devconsul.ClientOver(http.DefaultTransport)
		err := c.cfg.Validate()
		if !errors.Is(err, election.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.cfg, err)
		}
	}
	for cfg, want := range map[onconsul.Config][2]time.Duration{
		{}:                           {17500 * time.Millisecond, 19 * time.Second},
		{Lease: 3 * time.Second}:     {5950 * time.Millisecond, 12 * time.Second},
		{LockDelay: time.Second}:     {22 * time.Second, 22 * time.Second},
		{TTL: time.Hour}:             {2*time.Hour + 61*time.Second, 2*time.Hour + 61*time.Second},
		{CheckTTL: onconsul.NoCheck}: {31 * time.Second, 31 * time.Second},
	} {
		if process, machine := cfg.TakeOver(); [2]time.Duration{process, machine} != want {
			t.Errorf("%+v: it takes %v, of a lost machine %v; want %v", cfg, process, machine, want)
		}
	}
}
