package onzk_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onzk"
)

func TestALeaseCountsOnlyContactThatTheEnsemblesLeaderHasHeardOf(t *testing.T) {
	begin := time.Now()
	at := func(s float64) time.Time { return begin.Add(time.Duration(s * float64(time.Second))) }
	var l onzk.Lease
	is := func(want float64, why string) {
		t.Helper()
		if got := l.Start().Sub(begin).Seconds(); got != want {
			t.Errorf("the lease starts at %v, want %v: %s", got, want, why)
		}
	}
	l.Opened(12*time.Second, at(0))
	is(0, "opening a session is a transaction")
	l.Committed(at(2), at(2.5))
	is(0, "the server may not have reported it")
	l.Committed(at(5.4), at(5.5))
	is(0, "less than a quarter of the timeout after the answer")
	l.Committed(at(5.5), at(5.6))
	is(2, "a quarter of the timeout after the answer")
	l.Committed(at(6), at(9))
	is(2, "nothing that was answered early enough")
	l.Committed(at(11), at(11.1))
	is(5.5, "the one that was answered late does not count yet")
	l.Resumed(at(13), at(13.5))
	is(5.5, "a handshake alone counts for nothing: the server may belong to no majority")
	l.Committed(at(13.4), at(14))
	is(5.5, "sent before the handshake was answered")
	l.Committed(at(14), at(14.1))
	is(13, "the ensemble's leader was asked in the handshake")
}

// The lock-delay that a leader has left behind is as long as its lease was then.
func TestALeaseIsNoLongerThanItsSessionWasGrantedAtFirst(t *testing.T) {
	begin := time.Now()
	at := func(s float64) time.Time { return begin.Add(time.Duration(s * float64(time.Second))) }
	var l onzk.Lease
	l.Opened(10*time.Second, at(0))
	l.ResumedFor(40*time.Second, at(3), at(3.1))
	if got := l.Timeout(); got != 10*time.Second {
		t.Errorf("a server that may be deposed grants 40s: the lease is %v", got)
	}
	l.Committed(at(4), at(4.1))
	l.Committed(at(9), at(9.1))
	if got := l.Start(); got != at(3) {
		t.Errorf("half a tick of servers that grant 40s may not be over, and the lease starts "+
			"at %v", got.Sub(begin))
	}
	l.ResumedFor(6*time.Second, at(10), at(10.1))
	l.ResumedFor(40*time.Second, at(11), at(11.1))
	if got := l.Timeout(); got != 6*time.Second {
		t.Errorf("it was granted 6s and then 40s: the lease is %v", got)
	}
}

func TestTheQueueIsByPriorityThenBySequenceAcrossItsOverflow(t *testing.T) {
	guid := func(c string) string { return "_c_" + strings.Repeat(c, 32) }
	want := []string{
		guid("f") + "-p10-n0000000007",
		guid("a") + "-p0-n2147483646",
		guid("e") + "-p0-n2147483647",
		guid("0") + "-p0-n-2147483648",
		guid("b") + "-p0-n-2147483647",
		guid("1") + "-p0-n-1000000000",
		guid("2") + "-p0-n-999999999", // the sign is one of the ten characters that it is filled to
		guid("3") + "-p-3-n-000000001",
		guid("c") + "-p-3-n0000000001",
	}
	children := append([]string{"leader", "_e_x", guid("d") + "-p0-n99999999999",
		guid("d") + "-p0-n999999999"}, want...)
	slices.Sort(children)
	if got := onzk.Queue(children); !slices.Equal(got, want) {
		t.Errorf("the order is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Credentials that stand by mistake in a server's address are said to nobody.
func TestAnErrorHoldsNoPasswordOfAServersAddress(t *testing.T) {
	for _, server := range []string{"user:secret@zk1:2181", "user:secret@zk1", "secret@zk1",
		"user:secret/@zk1:2181", "user:secret;@zk1", "user:secret,@zk1", "user:secret@zk1:port"} {
		err := onzk.Config{Servers: append(strings.Split(server, ","), "")}.Validate()
		if !errors.Is(err, election.ErrInvalid) || !strings.Contains(err.Error(), "Digest") ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", server, err)
		}
	}
}

// The client counts a session's timeout in milliseconds, in 31 bits.
func TestSettingsThatCannotBeAreAllNamedAtOnce(t *testing.T) {
	_, err := onzk.Connect(onzk.Config{Servers: []string{"zk1", ""},
		SessionTimeout: onzk.MaxSessionTimeout + 1, HoldBack: election.MaxHoldBack + 1,
		Root: "here", LockDelay: 2 * time.Hour, Digest: "nobody"})
	if !errors.Is(err, election.ErrInvalid) {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{"Servers", "SessionTimeout", "HoldBack", "Root", "LockDelay",
		"Digest"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not named in: %v", want, err)
		}
	}
	if _, err := onzk.Connect(onzk.Config{}); !errors.Is(err, election.ErrInvalid) ||
		!strings.Contains(err.Error(), "Servers") {
		t.Errorf("without servers: %v", err)
	}
}

// A server that cannot be would be asked for again and again.
func TestAServerThatCannotBeIsRefusedAtOnce(t *testing.T) {
	for server, fits := range map[string]bool{
		"zk1": true, "zk1:2181": true, "[::1]:2181": true, "10.0.0.1:1": true,
		"": false, "zk1:2181/app": false, "zk://zk1:2181": false, "zk1:": false, ":2181": false,
		"zk1:0": false, "zk1:65536": false, "zk1:abc": false, "::1": false, "[::1": false,
		"zk1:2181;zk2:2181": false, "zk1 zk2": false,
	} {
		err := onzk.Config{Servers: []string{server}}.Validate()
		if fits != (err == nil) || !fits && !errors.Is(err, election.ErrInvalid) {
			t.Errorf("%q: %v", server, err)
		}
	}
}

// What ZooKeeper refuses would be asked for again and again.
func TestANameThatZooKeeperRefusesIsRefusedAtOnce(t *testing.T) {
	c, err := onzk.Connect(onzk.Config{Servers: []string{"127.0.0.1:1"}})
	must(t, err)
	defer c.Close()
	for name, fits := range map[string]bool{"a.b_c-~:@+9": true, "état-日本": true,
		"\U0001d4b3": false, "x\uffdc": true} {
		must(t, election.CheckName("name", name))
		if _, err := c.Open(name); fits != (err == nil) ||
			!fits && !errors.Is(err, election.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := (onzk.Config{Root: "/a/\U0001d4b3"}).Validate(); !errors.Is(err,
		election.ErrInvalid) {
		t.Errorf("a root that ZooKeeper refuses: %v", err)
	}
}

func TestAnEndBeforeItsTimeIsToldFromAnExpiry(t *testing.T) {
	begin := time.Now()
	if got := onzk.Lost(10*time.Second, begin, begin.Add(9*time.Second)); !strings.Contains(got,
		"before its time") {
		t.Errorf("after 9 s of 10 s: %s", got)
	}
	if got := onzk.Lost(10*time.Second, begin, begin.Add(10*time.Second)); !strings.Contains(got,
		"expired") {
		t.Errorf("after 10 s of 10 s: %s", got)
	}
}
