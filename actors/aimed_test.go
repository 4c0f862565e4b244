package actors_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/aimed"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/messages"
	"github.com/hashicorp/consul/api"
)

// Values that somebody aims at the cluster, one in each field of each kind of key that it reads.
// Whatever cannot be so is named, in the log and in the status, and concerns nothing but its own
// item or member: all others are owned, and taken over, as ever.

func TestAimedAcksConcernNobodyElse(t *testing.T) {
	for field, values := range byField(aimed.Ack) {
		if raceDetector && field != "sid" {
			continue
		}
		t.Run("ghosts/"+field, func(t *testing.T) {
			besiege(t, func(s *siege) {
				var odd []string
				for i, x := range values {
					key := fmt.Sprintf("acks/ghost_%d", i)
					s.aim(key, x.value, 0)
					if _, err := protocol.ParseAck(x.value); err != nil {
						odd = append(odd, key)
					}
				}
				time.Sleep(2 * time.Second)
				s.names(odd)
				s.holds(4)
			})
		})
	}
	few(aimed.Ack, func(x aimedValue) {
		t.Run("own/"+x.what, func(t *testing.T) {
			besiege(t, func(s *siege) {
				s.aim("acks/n2", x.value, 0)
				s.holds(4)
			})
		})
		t.Run("dead/"+x.what, func(t *testing.T) {
			besiege(t, func(s *siege) {
				s.kill("n2")
				s.aim("acks/n2", x.value, 0)
				s.start("n2", s.options...)
				s.await("its registration", 75*time.Second, func() bool {
					return s.members["n2"].c.Membership().Get().Session != ""
				})
				s.await("all items", 45*time.Second, s.all(4))
			})
		})
	})
}

func TestAimedRecordsConcernNobodyElse(t *testing.T) {
	t.Run("ghosts", func(t *testing.T) {
		besiege(t, func(s *siege) {
			var odd []string
			aimed.Member.Each(wide, func(_ string, value []byte) {
				odd = append(odd, fmt.Sprintf("members/ghost_%d", len(odd)))
				s.aim(odd[len(odd)-1], value, 0) // locked by no session: nobody's
			})
			time.Sleep(2 * time.Second)
			s.names(odd)
			s.holds(4)
		})
	})
	// Those that somebody keeps locked and that cannot be read are given nothing.
	t.Run("locked", func(t *testing.T) {
		besiege(t, func(s *siege) {
			session, _, err := s.client.Session().CreateNoChecks(&api.SessionEntry{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			var odd []string
			aimed.Member.Each(wide, func(_ string, value []byte) {
				if _, err := protocol.ParseMemberRecord(value); err == nil {
					return
				}
				odd = append(odd, fmt.Sprintf("members/ghost_%d", len(odd)))
				if ok, _, err := s.client.KV().Acquire(&api.KVPair{Key: s.store.Keys().Root() +
					odd[len(odd)-1], Value: value, Session: session}, nil); err != nil || !ok {
					t.Fatal(ok, err)
				}
			})
			time.Sleep(2 * time.Second)
			s.names(odd)
			s.holds(4)
		})
	})
	// A member that lives writes its own again.
	few(aimed.Member, func(x aimedValue) {
		t.Run("own/"+x.what, func(t *testing.T) {
			besiege(t, func(s *siege) {
				s.aim("members/n2", x.value, 0)
				time.Sleep(2 * time.Second)
				s.holds(4)
			})
		})
	})
}

func TestAimedEventsConcernNobodyElse(t *testing.T) {
	each := func(call func(what string, value []byte)) {
		aimed.Record.EachWith("e", aimed.Event, wide, call)
	}
	besiege(t, func(s *siege) {
		n, odd := 0, []string(nil)
		each(func(_ string, value []byte) { // into every slot, the one that is next among them
			key := fmt.Sprintf("events/%d", n%protocol.EventSlots)
			s.aim(key, value, 0)
			n++
		})
		for _, name := range []string{"256", "65536", "9223372036854775807", "-1", "01", "x",
			"1/2"} {
			s.aim("events/"+name, []byte("{"), 0)
			odd = append(odd, "events/"+name)
		}
		for i := range 10 {
			s.aim(fmt.Sprintf("events/%d", i), []byte(wide), 0)
		}
		s.kill("n1") // it leads
		s.await("the lost leader's items", 60*time.Second, s.all(4))
		for _, key := range odd {
			s.said(key)
		}
		op := s.operator()
		events, err := op.Events(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		if !slices.ContainsFunc(events, func(e actors.Event) bool {
			return e.Kind == "taken-over" && len(e.Items) > 0
		}) {
			s.t.Errorf("the take-over is not in the log of %d events", len(events))
		}
	})
	besiege(t, func(s *siege) {
		each(func(_ string, value []byte) { s.aim("events/0", value, 0) })
		s.holds(4)
	})
	// A log that was deleted begins anew.
	besiege(t, func(s *siege) {
		if _, err := s.client.KV().DeleteTree(s.store.Keys().Events(), nil); err != nil {
			s.t.Fatal(err)
		}
		s.holds(4)
		op := s.operator()
		if events, err := op.Events(s.t.Context()); err != nil || len(events) == 0 {
			s.t.Errorf("%d events, %v", len(events), err)
		}
	})
}

func TestAnAimedTermConcernsNobodyElse(t *testing.T) {
	few(aimed.Term, func(x aimedValue) {
		t.Run(x.what, func(t *testing.T) {
			besiege(t, func(s *siege) {
				s.aim("term", x.value, 0)
				s.kill("n1") // the leader
				s.await("its items at the other", 47*time.Second, s.all(4))
				s.addWork("new_1")
				s.await("the new item", 10*time.Second, s.all(5))
				s.await("the duty", 30*time.Second, func() bool {
					return s.members["n2"].c.Leadership().Get().Role == messages.Leading
				})
				for line := range strings.Lines(s.out.String()) {
					if len(line) > 4000 {
						t.Errorf("a log line of %d bytes: %.200s", len(line), line)
					}
				}
			})
		})
	})
}

func TestAnAimedLeaderKeyConcernsNobodyElse(t *testing.T) {
	for _, value := range []string{"", "a/b", "\x1b]52;c;eA==\x07", "\xff",
		strings.Repeat("x", 300_000)} {
		t.Run(fmt.Sprintf("%.10q", value), func(t *testing.T) {
			besiege(t, func(s *siege) {
				s.aim("leader", []byte(value), 1<<64-1)
				s.holds(4)
			})
		})
	}
}

// Consul shows bytes that are no UTF-8 as U+FFFD, and knows no key of that name: whatever is
// written under it, on a condition that holds, is refused.
func TestKeysThatAreNoUTF8ConcernNobodyElse(t *testing.T) {
	for key, watched := range map[string]bool{"assignments/n1/%s": true, "assignments/%s/x": false,
		"assignments/gone/%s": false, "workload/%s": true, "acks/%s": true, "members/%s": true,
		"control/pins/%s": true, "control/prefers/%s": true, "control/drain/%s": true,
		"control/restart/items/%s": true, "control/restart/members/%s": true,
		"quarantine/%s": false, "states/%s": false} {
		t.Run(fmt.Sprintf(key, "x"), func(t *testing.T) {
			besiege(t, func(s *siege) {
				value := `{"s":"own","to":"0d8f3a2e-0000-4000-8000-000000000000","clear":true}`
				for _, id := range []string{"\xff", "x\xfe"} {
					s.aim(fmt.Sprintf(key, id), []byte(value), 0)
				}
				time.Sleep(2 * time.Second)
				if watched {
					s.names([]string{fmt.Sprintf(key, "x\ufffd")})
				}
				s.holds(4)
			})
		})
	}
}
