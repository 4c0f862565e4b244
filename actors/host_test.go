package actors_test

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/actors/routing"
)

func TestAfterTheEndOfRunLocateWaitsForNothing(t *testing.T) {
	for name, c := range map[string]struct {
		cfg   option
		fails bool
	}{
		"stopped": {func(*actors.Config) {}, false},
		"ended before it began": {func(cfg *actors.Config) {
			cfg.Backend, cfg.ConfigLog = actors.BackendConsul, filepath.Join("/dev/null", "log")
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(cl *cluster) {
				m := cl.start("n1", c.cfg)
				if !c.fails {
					if _, err := m.c.WaitForLeader(cl.t.Context()); err != nil {
						t.Fatal(err)
					}
					m.cancel()
				}
				<-m.done
				if (m.err != nil) != c.fails {
					t.Fatal(m.err)
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				if _, err := m.c.Locate(ctx, "a"); !errors.Is(err, actors.ErrStopped) {
					t.Error(err)
				}
				if _, err := m.c.WaitForLeader(ctx); !errors.Is(err, actors.ErrStopped) {
					t.Error(err)
				}
			})
		})
	}
}

func TestASecondRunIsRefused(t *testing.T) {
	run(t, func(c *cluster) {
		m := c.start("n1")
		if _, err := m.c.WaitForLeader(c.t.Context()); err != nil {
			t.Fatal(err)
		}
		again := func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := m.c.Run(ctx); !errors.Is(err, actors.ErrStarted) {
				t.Errorf("the second Run ended with %v", err)
			}
		}
		again() // beside the first
		c.stop("n1")
		again()
	})
}

func TestABadSettingIsOneErrorInAllPackages(t *testing.T) {
	_, member := actors.New(actors.Config{})
	_, router := routing.New(routing.Config{})
	_, handler := dispatch.New(dispatch.Config{})
	for name, err := range map[string]error{"actors": member, "routing": router,
		"dispatch": handler} {
		if !errors.Is(err, actors.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A sum with one that is longer would begin at the other end.
func TestATimeIsAYearAtTheMost(t *testing.T) {
	for name, set := range map[string]func(*actors.Config, time.Duration){
		"grace":        func(c *actors.Config, d time.Duration) { c.Grace = d },
		"merge":        func(c *actors.Config, d time.Duration) { c.Merge = d },
		"leader-soak":  func(c *actors.Config, d time.Duration) { c.LeaderSoak = d },
		"worker-soak":  func(c *actors.Config, d time.Duration) { c.WorkerSoak = d },
		"stop-timeout": func(c *actors.Config, d time.Duration) { c.StopTimeout = d },
		"brake-time":   func(c *actors.Config, d time.Duration) { c.BrakeHold = d },
	} {
		for d, allowed := range map[time.Duration]bool{actors.MaxTime: true,
			actors.MaxTime + 1: false, math.MaxInt64: false} {
			cfg := actors.Config{Service: "demo", ID: "n1"}
			set(&cfg, d)
			if _, err := actors.New(cfg); (err == nil) != allowed ||
				err != nil && !strings.Contains(err.Error(), name+" ") {
				t.Errorf("%s %v: %v", name, d, err)
			}
		}
	}
}

// Without a client each door to Consul makes one from the environment, and says so when it cannot.
func TestAClientThatCannotBeMadeFromTheEnvironmentIsSaidToBeOne(t *testing.T) {
	t.Setenv("CONSUL_CACERT", filepath.Join(t.TempDir(), "absent.pem"))
	cfg := actors.Config{Service: "demo", ID: "n1"}
	_, member := actors.New(cfg)
	_, orders := operator.New(nil, "demo")
	_, router := routing.New(routing.Config{Service: "demo"})
	_, find := routing.Locate(t.Context(), routing.Config{Service: "demo"}, "w")
	_, config := configstore.New(configstore.Config{Service: "demo"})
	_, depart := actors.Depart(t.Context(), cfg, "", true)
	for door, err := range map[string]error{"New": member, "operator.New": orders,
		"routing.New": router, "routing.Locate": find, "configstore.New": config, "Depart": depart} {
		if err == nil || !strings.Contains(err.Error(), "the CONSUL_HTTP_* variables: ") {
			t.Errorf("%s: %v", door, err)
		}
	}
}

func TestARenewalHasTimeForItsAnswerBeforeTheWorkIsStopped(t *testing.T) {
	cfg := actors.Config{Timing: actors.Timing{TTL: 20 * time.Second, Renew: 10 * time.Second,
		LeaseMargin: 8 * time.Second}, Service: "demo", ID: "n1"}
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
	for _, margin := range []time.Duration{9 * time.Second, 10 * time.Second} {
		if cfg.LeaseMargin = margin; !errors.Is(cfg.Validate(), actors.ErrConfig) {
			t.Errorf("a margin of %v is allowed, and the ride through an outage lasts %v", margin,
				cfg.Bounds().RideThrough.Total())
		}
	}
}
