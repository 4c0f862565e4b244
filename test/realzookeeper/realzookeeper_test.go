//go:build unix && coordd_long

package realzookeeper_test

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"github.com/coordd/coordd/test/realzookeeper"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// connect returns a connection that has a session. A short one: a handshake that comes before a
// starting server is ready is never answered, and the client waits for that for 6.7 times the
// session.
func connect(t *testing.T, addrs ...string) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect(addrs, time.Second, zk.WithLogger(quiet{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		for range events { // closed when its goroutines are gone
		}
	})
	deadline := time.After(time.Minute)
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return conn
			}
		case <-deadline:
			t.Fatal("no session within a minute")
		}
	}
}

func ready(t *testing.T, e *realzookeeper.Ensemble) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := e.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestDataAndAddressSurviveStopAndKill(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	e := realzookeeper.Start(t, realzookeeper.Options{})
	t.Logf("ready after %v", time.Since(begin).Round(time.Millisecond))
	s, addr := e.Servers[0], e.Servers[0].Addr()
	if _, err := connect(t, addr).Create("/kept", []byte("1"), 0,
		zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	for name, end := range map[string]func() error{"stop": s.Stop, "kill": s.Kill} {
		if err := end(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := s.Ask(t.Context(), "ruok"); err == nil {
			t.Fatalf("%s: the server still answers", name)
		}
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		ready(t, e)
		value, _, err := connect(t, addr).Get("/kept")
		if err != nil || string(value) != "1" {
			t.Fatalf("%s: lost the node: %q, %v", name, value, err)
		}
		if s.Addr() != addr {
			t.Fatalf("%s: moved from %s to %s", name, addr, s.Addr())
		}
	}
}

func TestAFrozenServerAcceptsAndDoesNotAnswer(t *testing.T) {
	t.Parallel()
	e := realzookeeper.Start(t, realzookeeper.Options{})
	s := e.Servers[0]
	if err := s.Freeze(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	answer, err := s.Ask(ctx, "ruok")
	if timeout, ok := err.(net.Error); !ok || !timeout.Timeout() {
		t.Fatalf("a frozen server answered, or refused: %q, %v", answer, err)
	}
	if err := s.Thaw(); err != nil {
		t.Fatal(err)
	}
	ready(t, e)
}

func TestThreeServersSurviveTheLossOfTheirLeader(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	e := realzookeeper.Start(t, realzookeeper.Options{Servers: 3})
	t.Logf("three ready after %v", time.Since(begin).Round(time.Millisecond))
	if _, err := connect(t, e.Addrs()...).Create("/kept", nil, 0,
		zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	var leader *realzookeeper.Server
	for _, s := range e.Servers {
		if answer, err := s.Ask(t.Context(), "srvr"); err == nil &&
			strings.Contains(answer, "Mode: leader") {
			leader = s
		}
	}
	if leader == nil {
		t.Fatal("no server leads")
	}
	if err := leader.Kill(); err != nil {
		t.Fatal(err)
	}
	if found, _, err := connect(t, e.Addrs()...).Exists("/kept"); err != nil || !found {
		t.Fatalf("the other two lost the node: %v, %v", found, err)
	}
	if err := leader.Start(); err != nil {
		t.Fatal(err)
	}
	ready(t, e)
}

func TestAServerThatCannotStartSaysWhy(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	for _, c := range []struct {
		name, env, value string
		config           map[string]string
		want             string
	}{
		{name: "port", config: map[string]string{"clientPort": port},
			want: "Address already in use"},
		{name: "setting", config: map[string]string{"tickTime": "soon"}, want: "soon"},
		{name: "no Java", env: "JAVA_HOME", value: "/nowhere", want: "default-jre-headless"},
		{name: "no ZooKeeper", env: "COORDD_TEST_ZOOKEEPER", value: "/nowhere/zookeeper.jar",
			want: "libzookeeper-java"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.env != "" {
				t.Setenv(c.env, c.value)
			}
			probe := &recorder{TB: t}
			done := make(chan struct{})
			go func() { // Fatal ends the goroutine it is called on
				defer close(done)
				realzookeeper.Start(probe, realzookeeper.Options{Config: c.config})
			}()
			<-done
			if !strings.Contains(probe.fatal, c.want) {
				t.Errorf("failed with %q, want a word about %q", probe.fatal, c.want)
			}
		})
	}
}

// recorder notes a failure instead of failing.
type recorder struct {
	testing.TB
	fatal string
}

func (r *recorder) Failed() bool { return false } // or the clean-up would print the log

func (r *recorder) Fatal(args ...any) {
	r.fatal = fmt.Sprint(args...)
	runtime.Goexit()
}

func (r *recorder) Error(...any)          {}
func (r *recorder) Errorf(string, ...any) {}
