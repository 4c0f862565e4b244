//go:build unix

package guard

import (
	"bytes"
	"encoding/gob"
	"os"
	"testing"
)

// In the package: nobody outside of it speaks the protocol.

// FuzzEvents: whatever comes through the guard's pipe, reading it ends with the
// pipe, and what has not been said to have ended is ended by fail.
func FuzzEvents(f *testing.F) {
	var said bytes.Buffer
	enc := gob.NewEncoder(&said)
	for _, e := range []event{
		{Kind: evHello, PID: 7, Protocol: protocol, Token: "1.2.3.4"}, {Kind: evStarted, ID: 1,
			PID: 99}, {Kind: evExited, ID: 1, Code: 1},
		{Kind: evExited, ID: 1}, {Kind: evLocked, Locked: true}, {Kind: evHello}, {Kind: evHello},
		{Kind: evPong}, {Kind: 200, ID: 1 << 63},
	} {
		if err := enc.Encode(e); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(said.Bytes())
	f.Add(said.Bytes()[:said.Len()/2])
	f.Add([]byte{})
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Add(bytes.Repeat([]byte{0xff}, 64))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		go func() {
			defer w.Close()
			w.Write(data)
		}()
		l := newLink(w, r, nil)
		start := command{Kind: cmdStart}
		jobs := []*job{l.start(start, &lease{}), l.start(start, &lease{})}
		l.read()
		r.Close() // lets the writer go if not everything was read
		l.fail(nil, stand{}, nil)
		for _, j := range jobs {
			<-j.done
		}
		if l.start(command{Kind: cmdStart}, &lease{}) != nil {
			t.Error("a link that has failed takes a job")
		}
	})
}

// FuzzToken: a marker that a stranger has put into its environment kills nothing by being taken for
// a dead guard's, unless it has the form of one and names a process that does not exist.
func FuzzToken(f *testing.F) {
	for _, s := range []string{"", "1.2.3.4", "....", "-1.0.0.0", "99999999999999999999.1.1.1",
		"1.-1.x.y", newToken()} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, token string) {
		if tokenDead(token) && bytes.Count([]byte(token), []byte(".")) != 3 {
			t.Errorf("%q counts as a dead guard's", token)
		}
	})
}
