package dispatch_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/dispatch"
)

// A member may take all the time that it has for its answer, also where its connection was used a
// moment before: deadlines are not moved for every byte.
func TestAMemberMayBeSilentForAllOfItsTime(t *testing.T) {
	for _, since := range []time.Duration{0, time.Second, 7 * time.Second, 50 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			const idle = time.Minute
			near, far := net.Pipe()
			c, begin := dispatch.MemberConn(near, idle, idle)
			var member sync.WaitGroup
			defer member.Wait()
			defer c.Close()
			answer := func(after time.Duration) {
				begin()
				member.Go(func() {
					_, _ = io.ReadFull(far, make([]byte, 3))
					time.Sleep(after)
					_, _ = far.Write([]byte("yes"))
				})
				if _, err := c.Write([]byte("ask")); err != nil {
					t.Fatalf("%v after the first request: %v", since, err)
				}
				if _, err := io.ReadFull(c, make([]byte, 3)); err != nil {
					t.Errorf("%v after the first request, an answer after %v: %v", since, after,
						err)
				}
			}
			answer(0)
			time.Sleep(since)
			answer(idle - time.Millisecond)
		})
	}
}

// deadlines records those that a client's connection is given.
type deadlines struct {
	http.ResponseWriter
	read, write time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error  { d.read = t; return nil }
func (d *deadlines) SetWriteDeadline(t time.Time) error { d.write = t; return nil }

// A client has all of its time to send the next part of its body, and to take the next part of its
// answer.
func TestAClientMayBeSilentForAllOfItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 40 * time.Second
		w := &deadlines{ResponseWriter: httptest.NewRecorder()}
		body, sender := io.Pipe()
		r := httptest.NewRequest(http.MethodPost, "/a/", body)
		c := dispatch.Client(w, r, time.Hour, timeout)
		parts := []time.Duration{0, time.Second, 3 * time.Second, 30 * time.Second, time.Second}
		go func() {
			for _, after := range parts {
				time.Sleep(after)
				_, _ = sender.Write([]byte("x"))
			}
		}()
		for i := range parts {
			begin := time.Now()
			if _, err := c.Read(make([]byte, 8)); err != nil {
				t.Fatal(err)
			}
			if has := w.read.Sub(begin); has < timeout {
				t.Errorf("part %d: it has %v from when it is waited for, not %v", i, has, timeout)
			}
		}
		for i, after := range parts {
			time.Sleep(after)
			if _, err := c.Write(bytes.Repeat([]byte{'x'}, 64)); err != nil {
				t.Fatal(err)
			}
			if has := time.Until(w.write); has < timeout {
				t.Errorf("piece %d: it has %v to take it, not %v", i, has, timeout)
			}
		}
	})
}
