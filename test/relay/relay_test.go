//go:build linux

package relay_test

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/test/relay"
)

func TestTheRelayRefusesFreezesAndCutsOneWay(t *testing.T) {
	t.Parallel()
	// The server says what it hears, so that both directions can be told apart.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan string, 16)
	var served sync.WaitGroup
	served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			served.Go(func() {
				defer c.Close()
				for lines := bufio.NewScanner(c); lines.Scan(); {
					heard <- lines.Text()
					fmt.Fprintln(c, "answer to "+lines.Text())
				}
			})
		}
	})
	r := relay.New(t, l.Addr().String())
	set := func(mode relay.Mode) {
		t.Helper()
		if err := r.Set(mode); err != nil {
			t.Fatal(err)
		}
	}
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", r.Addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	say := func(c net.Conn, text string) {
		t.Helper()
		if _, err := fmt.Fprintln(c, text); err != nil {
			t.Fatal(err)
		}
	}
	const soon, never = 2 * time.Minute, 200 * time.Millisecond
	hears := func(text string) {
		t.Helper()
		select {
		case got := <-heard:
			if got != text {
				t.Fatalf("the server hears %q, not %q", got, text)
			}
		case <-time.After(soon):
			t.Fatalf("the server does not hear %q", text)
		}
	}
	answered := func(c net.Conn, wait time.Duration) string {
		_ = c.SetReadDeadline(time.Now().Add(wait))
		line, _ := bufio.NewReader(c).ReadString('\n')
		return strings.TrimSpace(line)
	}
	gets := func(c net.Conn, text string) {
		t.Helper()
		if got := answered(c, soon); got != "answer to "+text {
			t.Fatalf("the client gets %q for %q", got, text)
		}
	}

	c := dial()
	say(c, "1")
	hears("1")
	gets(c, "1")

	set(relay.Mute)
	say(c, "2")
	hears("2")
	if got := answered(c, never); got != "" {
		t.Fatalf("mute, and the client gets %q", got)
	}
	set(relay.Pass)
	gets(c, "2")

	set(relay.Deaf)
	say(c, "3")
	c.Close() // its sender gives up
	select {
	case got := <-heard:
		t.Fatalf("deaf, and the server hears %q", got)
	case <-time.After(never):
	}
	set(relay.Pass)
	hears("3") // late, from nobody

	set(relay.Freeze)
	c = dial()
	say(c, "4")
	if got := answered(c, never); got != "" || len(heard) > 0 {
		t.Fatalf("frozen, and the client gets %q", got)
	}
	set(relay.Pass)
	hears("4")
	gets(c, "4")

	set(relay.Refuse)
	if got, err := bufio.NewReader(c).ReadString('\n'); err == nil {
		t.Fatalf("refused, and the client gets %q", got)
	}
	if c, err := net.Dial("tcp", r.Addr); err == nil {
		c.Close()
		t.Fatal("refused, and a connection is made")
	}
	set(relay.Pass)
	c = dial()
	say(c, "5")
	hears("5")
	gets(c, "5")

	// One host's connections are held, and those of another go on.
	r.Hold("127.0.0.1")
	other, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).Dial("tcp",
		r.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	say(c, "6")
	say(other, "7")
	hears("7")
	gets(other, "7")
	r.Hold()
	hears("6")
	gets(c, "6")

	c.Close()
	other.Close()
	l.Close()
	served.Wait()
}
