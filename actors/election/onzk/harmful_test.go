package onzk_test

import (
	"net"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election/onzk"
)

// The client calls it in a goroutine of its own, where a panic would end the process.
func TestADialThatPanicsIsAServerThatCannotBeReached(t *testing.T) {
	d := &onzk.Dialer{Base: func(string, string, time.Duration) (net.Conn, error) {
		panic("no network")
	}}
	if conn, err := d.Dial("tcp", "127.0.0.1:2181", time.Second); conn != nil || err == nil {
		t.Errorf("it returns %v, %v", conn, err)
	}
}
