package protocol_test

import (
	"errors"
	"testing"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// The leader plans nothing for a member whose record it cannot read: it keeps what it has.
func TestTheRecordOfALaterVersionIsRefused(t *testing.T) {
	keys, err := protocol.KeysOf("demo")
	if err != nil {
		t.Fatal(err)
	}
	for version, later := range map[int]bool{0: false, protocol.Version: false,
		protocol.Version + 1: true} {
		m, ok, err := keys.ReadMember(store.Entry{Key: keys.Member("n1"), Session: "s",
			Value: protocol.MemberRecord{Status: protocol.StatusAlive, Protocol: version}.Encode()})
		if !ok || errors.Is(err, protocol.ErrProtocol) != later || m.Unreadable != later {
			t.Errorf("version %d: %+v, %v, %v", version, m, ok, err)
		}
	}
}
