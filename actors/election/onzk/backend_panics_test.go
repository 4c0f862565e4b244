package onzk_test

import (
	"errors"
	"log/slog"
	"net"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onzk"
)

func nowhere(t *testing.T) *onzk.Conn {
	t.Helper()
	c, err := onzk.Connect(onzk.Config{
		Servers: []string{"127.0.0.1:1"}, Logger: slog.New(slog.DiscardHandler),
		Dial: func(string, string, time.Duration) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		},
	})
	must(t, err)
	return c
}

// What the goroutine did for the elections nobody does any more.
func TestAConnectionOfWhichAGoroutinePanicsIsClosedForItsElections(t *testing.T) {
	for how, fails := range map[string]func(){
		"panics": func() { panic("not today") },
		"leaves": runtime.Goexit,
	} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := nowhere(t)
				defer c.Close()
				e, err := election.New(c, election.Config{Election: "demo", Name: "n",
					Logger: slog.New(slog.DiscardHandler)})
				must(t, err)
				if _, err := e.Nominate(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				c.Spawn(fails)
				<-e.Done()
				if !errors.Is(e.Err(), election.ErrClosed) ||
					!errors.Is(e.Err(), election.ErrBroken) {
					t.Errorf("it ends with %v", e.Err())
				}
			})
		})
	}
}

func TestARequestThatPanicsHasFailed(t *testing.T) {
	for how, fails := range map[string]func() error{
		"panics": func() error { panic("not today") },
		"leaves": func() error { runtime.Goexit(); return nil },
	} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := nowhere(t)
				defer c.Close()
				if err := c.Request(t.Context(), fails); !errors.Is(err, election.ErrBroken) {
					t.Errorf("it says %v", err)
				}
			})
		})
	}
}
