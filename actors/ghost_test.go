package actors_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/protocol"
)

// A stranger's key that names the session of a member that lives concerns nothing but its own item
// or member. Consul finds a session also by capital letters, and answers with small ones.
func TestAStrangersKeyThatNamesALivingSessionConcernsNobodyElse(t *testing.T) {
	assignment := func(state, session string) []byte {
		return protocol.Assignment{State: state, Session: session}.Encode()
	}
	ack := func(session string) []byte {
		return protocol.Ack{Counter: 1, Session: session, Clear: true}.Encode()
	}
	kinds := map[string]func(s *siege, session string){
		"a second key of an item": func(s *siege, session string) {
			s.aim("assignments/ghost/device_group_0001", assignment(protocol.StateOwn, session), 0)
		},
		"a key of no item": func(s *siege, session string) {
			s.aim("assignments/ghost/nothing", assignment(protocol.StateRel, session), 0)
		},
		"a key and its item": func(s *siege, session string) {
			s.aim("assignments/ghost/device_group_0005", assignment(protocol.StateOwn, session), 0)
			s.addWork("device_group_0005")
		},
		"a key and an ack": func(s *siege, session string) {
			s.aim("assignments/ghost/nothing", assignment(protocol.StateOwn, session), 0)
			s.aim("acks/ghost", ack(session), 0)
		},
		"an ack": func(s *siege, session string) { s.aim("acks/ghost", ack(session), 0) },
		"a session of nobody's": func(s *siege, _ string) {
			session, _, err := s.client.Session().CreateNoChecks(&api.SessionEntry{}, nil)
			if err != nil {
				s.t.Fatal(err)
			}
			s.aim("assignments/ghost/nothing", assignment(protocol.StateOwn, session), 0)
		},
		"the ack of one that dies": func(s *siege, session string) {
			s.start("n0", s.options...)
			s.await("its share", 60*time.Second, func() bool { return s.loads()["n0"] == 1 })
			s.aim("acks/n0", ack(session), 0)
			s.kill("n0")
			s.await("its items elsewhere", 45*time.Second, s.all(4))
		},
	}
	for kind, aim := range kinds {
		// the leader's, and another's; in capitals
		for _, at := range []string{"n1", "n2", "N1", "N2"} {
			if raceDetector && (at == "n2" || at == "N1") {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s", kind, at), func(t *testing.T) {
				besiege(t, func(s *siege) {
					session := s.members[strings.ToLower(at)].c.Session().Get().ID
					if at == strings.ToUpper(at) {
						session = strings.ToUpper(session)
					}
					aim(s, session)
					s.put("leader", "somebody else") // the leader reads all anew
					time.Sleep(time.Second)
					items := 8
					for i := range 8 {
						s.addWork(fmt.Sprintf("device_group_%04d", i+1))
					}
					s.await("all items", 45*time.Second, s.all(items))
					s.start("n3", s.options...)
					s.await("the newcomer's share", 2*time.Minute, s.balanced(items))
				})
			})
		}
	}
}

// Nor does a member that comes back end the session of another one, which a stranger has written
// into its ack.
func TestAMemberThatComesBackEndsNoSessionOfAnothers(t *testing.T) {
	dead := func(cfg *actors.Config) {
		cfg.Liveness = func(actors.Process) actors.Liveness {
			return actors.Dead
		}
	}
	for kind, aim := range map[string]func(s *siege, session string){
		"an ack of one that has stopped": func(s *siege, session string) {
			s.aim("acks/n2", protocol.Ack{Counter: 1, Session: session, Clear: true, Stopped: true,
				TTL: 10 * time.Second}.Encode(), 0)
		},
		"an ack of a dead process": func(s *siege, session string) {
			s.aim("acks/n2", protocol.Ack{Counter: 1, Session: session,
				TTL: 10 * time.Second}.Encode(), 0)
		},
	} {
		t.Run(kind, func(t *testing.T) {
			besiege(t, func(s *siege) {
				before := s.members["n1"].c.Session().Get()
				s.stop("n2")
				aim(s, before.ID)
				s.start("n2", append(s.options, dead)...)
				s.await("its share", 45*time.Second, s.balanced(4))
				if now := s.members["n1"].c.Session().Get(); now.ID != before.ID {
					t.Errorf("n1 has session %s, had %s", now.ID, before.ID)
				}
			})
		})
	}
}
