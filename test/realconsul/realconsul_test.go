//go:build unix

package realconsul_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"go.uber.org/goleak"

	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/realconsul"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(realconsul.M(m)) }

func put(t *testing.T, c *api.Client, key, value string) {
	t.Helper()
	if _, err := c.KV().Put(&api.KVPair{Key: key, Value: []byte(value)}, nil); err != nil {
		t.Fatal(err)
	}
}

func ready(t *testing.T, c *realconsul.Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestAStartedServerTakesSessionsAndWritesAtOnce(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	c := realconsul.Start(t, realconsul.Options{})
	t.Logf("ready after %v", time.Since(begin).Round(time.Millisecond))
	client := c.Client()
	id, _, err := client.Session().Create(&api.SessionEntry{TTL: "10s"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ok, _, err := client.KV().Acquire(&api.KVPair{Key: "lock", Session: id}, nil)
	if err != nil || !ok {
		t.Fatalf("acquire: %v, %v", ok, err)
	}
	self, err := client.Agent().Self()
	if err != nil {
		t.Fatal(err)
	}
	if got := self["Config"]["Version"]; got != realconsul.Version {
		t.Errorf("the server's version is %v, not %s", got, realconsul.Version)
	}
}

func TestDataAndAddressSurviveStopAndKill(t *testing.T) {
	t.Parallel()
	c := realconsul.Start(t, realconsul.Options{})
	s, client := c.Servers[0], c.Client()
	addr := c.Addr()
	put(t, client, "kept", "1")
	for name, end := range map[string]func() error{"stop": s.Stop, "kill": s.Kill} {
		if err := end(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, _, err := client.KV().Get("kept", nil); err == nil {
			t.Fatalf("%s: the server still answers", name)
		}
		begin := time.Now()
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		ready(t, c)
		t.Logf("%s: back after %v", name, time.Since(begin).Round(time.Millisecond))
		pair, _, err := client.KV().Get("kept", nil)
		if err != nil || pair == nil || string(pair.Value) != "1" {
			t.Fatalf("%s: lost the key: %v, %v", name, pair, err)
		}
		if c.Addr() != addr {
			t.Fatalf("%s: moved from %s to %s", name, addr, c.Addr())
		}
	}
}

func TestAFrozenServerAcceptsAndDoesNotAnswer(t *testing.T) {
	t.Parallel()
	c := realconsul.Start(t, realconsul.Options{})
	s, client := c.Servers[0], c.Client()
	put(t, client, "a", "1")
	if err := s.Freeze(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, _, err := client.KV().Get("a", (&api.QueryOptions{}).WithContext(ctx))
	if err == nil || ctx.Err() == nil {
		t.Fatalf("a frozen server answered, or refused: %v", err)
	}
	if err := s.Thaw(); err != nil {
		t.Fatal(err)
	}
	ready(t, c)
}

func TestThreeServersElectAnotherLeader(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	c := realconsul.Start(t, realconsul.Options{Servers: 3})
	t.Logf("three ready after %v", time.Since(begin).Round(time.Millisecond))
	put(t, c.Client(), "a", "1")
	old := c.Leader()
	begin = time.Now()
	if err := old.Kill(); err != nil {
		t.Fatal(err)
	}
	next := c.Leader()
	for next == old { // the survivors name the dead one until they miss its heartbeat
		time.Sleep(20 * time.Millisecond)
		next = c.Leader()
	}
	t.Logf("another leads after %v", time.Since(begin).Round(time.Millisecond))
	if err := old.Start(); err != nil {
		t.Fatal(err)
	}
	ready(t, c)
	pair, _, err := old.Client().KV().Get("a", &api.QueryOptions{RequireConsistent: true})
	if err != nil || pair == nil {
		t.Fatalf("the old leader came back without the key: %v, %v", pair, err)
	}
}

// A client agent is a node of its own, whose sessions end when it leaves, and when it is lost.
func TestTheSessionsOfAnAgentEndWithIt(t *testing.T) {
	t.Parallel()
	c := realconsul.Start(t, realconsul.Options{Servers: 3, Agents: 2})
	for i, end := range []func() error{c.Agents[0].Stop, c.Agents[1].Kill} {
		id, _, err := c.Agents[i].Client().Session().Create(&api.SessionEntry{TTL: "10m"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		entry, _, err := c.Client().Session().Info(id, nil)
		if err != nil || entry == nil || entry.Node != c.Agents[i].Node {
			t.Fatalf("the session %+v is not one of %s: %v", entry, c.Agents[i].Node, err)
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		took := testkit.Await(t, testkit.Patience, "the end of its session", func() string {
			entry, _, err := c.Client().Session().Info(id, nil)
			if err != nil || entry != nil {
				return fmt.Sprintf("%+v, %v", entry, err)
			}
			return ""
		})
		t.Logf("agent %d: its session ended after %v", i, took.Round(time.Millisecond))
	}
}

func TestWithACLOnlyTheTokenMayWrite(t *testing.T) {
	t.Parallel()
	c := realconsul.Start(t, realconsul.Options{ACL: true})
	put(t, c.Client(), "a", "1")
	anonymous, err := api.NewClient(&api.Config{Address: c.Addr(),
		HttpClient: c.Servers[0].HTTPClient()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := anonymous.KV().Put(&api.KVPair{Key: "a"}, nil); err == nil ||
		!strings.Contains(err.Error(), "403") {
		t.Fatalf("a write without a token: %v, want 403", err)
	}
}

func TestWithTLSOnlyACertificateGetsIn(t *testing.T) {
	t.Parallel()
	c := realconsul.Start(t, realconsul.Options{TLS: true})
	dial := func(tls api.TLSConfig) error {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		client, err := api.NewClient(&api.Config{Address: c.Servers[0].HTTPSAddr(), Scheme: "https",
			Transport: transport, TLSConfig: tls})
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Status().Leader()
		return err
	}
	if err := dial(api.TLSConfig{CAFile: c.TLS.CA, CertFile: c.TLS.Cert,
		KeyFile: c.TLS.Key}); err != nil {
		t.Errorf("with a certificate: %v", err)
	}
	if err := dial(api.TLSConfig{CAFile: c.TLS.CA}); err == nil {
		t.Error("got in without a certificate")
	}
}

func TestSharedIsOneServerThatNobodyStops(t *testing.T) {
	a, b := realconsul.Shared(t), realconsul.Shared(t)
	if a.Addr() != b.Addr() {
		t.Fatalf("two servers: %s and %s", a.Addr(), b.Addr())
	}
	probe := &recorder{TB: t}
	if err := realconsul.Shared(probe).Servers[0].Stop(); err == nil || probe.errors != 1 {
		t.Fatalf("stopping the shared server: %v, %d errors reported, want one", err, probe.errors)
	}
	put(t, a.Client(), realconsul.Prefix(t)+"a", "1")
}

func TestAServerThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	ports := map[string]int{"http": taken.Addr().(*net.TCPAddr).Port, "dns": -1, "grpc": -1,
		"grpc_tls": -1, "serf_wan": -1}
	for name, c := range map[string]struct {
		config map[string]any
		want   string
	}{
		"port":    {map[string]any{"ports": ports}, "address already in use"},
		"setting": {map[string]any{"no_such_setting": 1}, "no_such_setting"},
	} {
		probe := &recorder{TB: t}
		done := make(chan struct{})
		go func() { // Fatal ends the goroutine it is called on
			defer close(done)
			realconsul.Start(probe, realconsul.Options{Config: c.config})
		}()
		<-done
		if !strings.Contains(probe.fatal, c.want) {
			t.Errorf("%s: failed with %q, want a word about %q", name, probe.fatal, c.want)
		}
	}
}

// recorder counts failures instead of failing.
type recorder struct {
	testing.TB
	errors int
	fatal  string
}

func (r *recorder) Failed() bool { return false } // or the clean-up would print the log

func (r *recorder) Fatal(args ...any) {
	r.fatal = fmt.Sprint(args...)
	runtime.Goexit()
}

func (r *recorder) Error(...any)          { r.errors++ }
func (r *recorder) Errorf(string, ...any) { r.errors++ }

func TestTheModuleThatBuildsTheServerPinsTheSameVersion(t *testing.T) {
	text, err := os.ReadFile("../consul/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if want := "github.com/hashicorp/consul v" + realconsul.Version +
		" "; !strings.Contains(string(text), want) {
		t.Errorf("test/consul/go.mod does not require %q", want)
	}
}
