package store_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/coordd/coordd/messages"
)

// A process that stood still itself knows nothing of its agent: else a member that was suspended
// for a moment would be missed late the next time.
func TestACheckIsPatientForASlowAgentAndForNoStandstill(t *testing.T) {
	for _, c := range []struct {
		what    string
		still   time.Duration // once, of the process
		takes   time.Duration // an answer of the agent, for some seconds
		patient bool
	}{
		{what: "nothing happens"},
		{what: "the process stands still", still: 7 * time.Second},
		{what: "the process stands still for longer than the check lasts", still: time.Minute},
		{what: "the agent is slow", takes: 2 * time.Second, patient: true},
	} {
		bubble(t, func(t *testing.T, consul *devconsul.Server, _ store.Store) {
			begin := time.Now()
			during := func() bool {
				at := time.Since(begin)
				return at > 30*time.Second && at < 40*time.Second
			}
			s := over(t, transport.Func(func(r *http.Request) (*http.Response, error) {
				if during() {
					time.Sleep(c.takes)
				}
				return consul.RoundTripper().RoundTrip(r)
			}))
			stood, log := false, &lines{}
			k := store.CheckKeeper{Store: s, TTL: 10 * time.Second, Log: log.logger(),
				Instance: messages.NewState(store.Instance{ID: "i", Service: "x",
					CheckTTL: 3 * time.Second}).Reader(),
				Session: messages.NewState(facts.Session{}).Reader(),
				Out:     messages.NewState(facts.Check{}), Says: func() string { return "" },
				Idle: func(context.Context) {
					if c.still > 0 && !stood && during() {
						stood = true
						time.Sleep(c.still)
					}
				}}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			_ = k.Run(ctx)
			if got := strings.Contains(log.Take(), "check-patient"); got != c.patient {
				t.Errorf("%s: patient is said: %v", c.what, got)
			}
		})
	}
}
