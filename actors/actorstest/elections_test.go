package actorstest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/actorstest"
	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/actors/election"
)

// leads waits until a candidate leads.
func leads(t *testing.T, c *actorstest.Candidate) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if s, err := c.State().Wait(ctx, func(s election.Status) bool {
		return s.Role == election.Leading
	}); err != nil {
		t.Fatalf("after a minute: %v", s)
	}
}

func TestACandidateThatIsCutOffIsFollowedByAnother(t *testing.T) {
	for name, store := range map[string]func(t *testing.T) *actorstest.Elections{
		"Consul":    func(t *testing.T) *actorstest.Elections { return actorstest.New(t).Elections() },
		"ZooKeeper": func(t *testing.T) *actorstest.Elections { return actorstest.ZooKeeper(t) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := store(t)
				a := e.Nominate(election.Config{Election: "db", Name: "a"})
				leads(t, a)
				b := e.Nominate(election.Config{Election: "db", Name: "b"})
				a.CutOff()
				leads(t, b)
				a.Mend()
				b.Stop()
				again := e.Nominate(election.Config{Election: "db", Name: "c"})
				leads(t, again)
			})
		})
	}
}

// A duty that ignores its context is found out: it overlaps with the next one's.
func TestADutyThatGoesOnAfterItsEndFailsTheTest(t *testing.T) {
	if goTest(func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e := actorstest.ZooKeeper(t)
			deaf := func(ctx context.Context, _ election.Status) error {
				<-ctx.Done()
				time.Sleep(50 * time.Second)
				return nil
			}
			a := e.Nominate(election.Config{Election: "db", Name: "a", Lead: deaf})
			leads(t, a)
			b := e.Nominate(election.Config{Election: "db", Name: "b"})
			a.CutOff()
			leads(t, b)
		})
	}) {
		t.Error("the test has passed")
	}
}

func TestADispatcherReachesWhatTheTestServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := actorstest.New(t)
		c.AddWork("w1")
		c.Serve("a.test:80", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "w1 at a with "+r.Header.Get(dispatch.HeaderItem))
		}))
		a := c.Start("a", nil, func(cfg *actors.Config) { cfg.Address = "a.test:80" })
		c.Await(10*time.Second, "the item to run", all(c, "a", 1))
		d, err := dispatch.New(dispatch.Config{Locator: a.Coordinator().Router(), Dial: c.Dial})
		if err != nil {
			t.Fatal(err)
		}
		answer := httptest.NewRecorder()
		d.ServeHTTP(answer, httptest.NewRequest("GET", "/w1/readings", nil))
		if body := answer.Body.String(); answer.Code != 200 || body != "w1 at a with w1" {
			t.Errorf("%d %s", answer.Code, body)
		}
		d.CloseIdleConnections()
	})
}

// What a test waits for in vain is said together with what is in the way.
func TestAWaitInVainNamesWhatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := &failing{TB: t}
		c := actorstest.New(failed)
		c.AddWork("w1")
		release := make(chan struct{})
		c.Start("a", func(ctx context.Context, _ actors.Item) error { <-release; return nil })
		c.Await(10*time.Second, "the item to run", all(c, "a", 1))
		if err := c.Operator().RemoveWork(t.Context(), "w1"); err != nil {
			t.Fatal(err)
		}
		c.Await(9*time.Second, "the item to end", func() bool { return len(c.Workers()) == 0 })
		close(release)
		if !strings.Contains(failed.said, "a: the work of w1 was told to stop") {
			t.Errorf("it says: %s", failed.said)
		}
	})
}

// failing is a test that goes on after it has failed.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Fatalf(format string, args ...any) { f.said = fmt.Sprintf(format, args...) }
