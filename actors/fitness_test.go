package actors_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/testkit/transport"
)

func TestAMemberWhoseTokenLacksRightsSaysWhichAndEnds(t *testing.T) {
	run(t, func(c *cluster) {
		c.way = transport.When(c.consul.RoundTripper(), transport.TxnWith("leader_state"),
			transport.Always(403, "Permission denied"))
		began := time.Now()
		n1 := c.start("n1")
		<-n1.done
		delete(c.members, "n1")
		if !errors.Is(n1.err, actors.ErrUnfit) || !strings.Contains(n1.err.Error(),
			`key_prefix "service/demo/" { policy = "write" }`) {
			t.Errorf("it ends with %v", n1.err)
		}
		if took := time.Since(began); took < 30*time.Second || took > 40*time.Second {
			t.Errorf("it ends after %v", took)
		}
	})
}

func TestAMemberDoesNotRegisterBesideOneOfALaterVersion(t *testing.T) {
	run(t, func(c *cluster) {
		session, _, err := c.client.Session().Create(&api.SessionEntry{Name: "demo/later",
			TTL: "24h"}, nil)
		c.must(err)
		_, _, err = c.client.KV().Acquire(&api.KVPair{Key: "service/demo/members/later",
			Session: session, Value: protocol.MemberRecord{Status: protocol.StatusAlive,
				Protocol: protocol.Version + 1}.Encode()}, nil)
		c.must(err)
		n1 := c.start("n1")
		<-n1.done
		delete(c.members, "n1")
		if !errors.Is(n1.err, actors.ErrProtocol) {
			t.Errorf("it ends with %v", n1.err)
		}
	})
}
