//go:build unix

package realconsul

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/coordd/coordd/test/realserver"
	"github.com/coordd/coordd/test/relay"
)

// readyTimeout is how long a cluster may take to elect a leader that stays and know its nodes. It
// takes three to five seconds; the rest is for a machine that runs other tests with the race
// detector.
const readyTimeout = 3 * time.Minute

// logTail is how many lines of each server's log a failed test prints.
const logTail = 60

// Options shape a cluster. The zero value is one server with everything allowed.
type Options struct {
	// Servers is 1 (also when 0) or 3.
	Servers int
	// Agents is how many client agents there are besides: each a node of its own, as on a machine
	// that runs no server, with Consul's defaults for a LAN's gossip.
	Agents int
	// ACL turns access control on, with everything denied by default. Cluster.Token may do
	// anything.
	ACL bool
	// TLS adds an HTTPS port that asks for a client certificate: see Server.HTTPSAddr and
	// Cluster.TLS. HTTP stays.
	TLS bool
	// DNS adds a port for DNS: see Server.DNSAddr. Not with TLS.
	DNS bool
	// Links puts a relay before each server's RPC port, which Raft uses too, so that Cluster.Part
	// can cut servers off from one another. Linux only: each server takes loopback addresses of its
	// own.
	Links bool
	// Config holds further settings of Consul's configuration file, by their names there; they win
	// over the harness's own at the top level.
	Config map[string]any
}

// Cluster is one server or three that elect a leader among themselves.
type Cluster struct {
	// Servers are in the order of their node names: coordd-1, coordd-2, coordd-3.
	Servers []*Server
	// Agents are the client agents: coordd-agent-1 and so on. Stop has one leave the cluster, which
	// is what a client agent does at SIGTERM: the sessions of its node end.
	Agents []*Server
	// Token is the management token with ACL, otherwise empty. Clients from Client carry it.
	Token string
	// TLS names the files that a client of the HTTPS port needs; nil without Options.TLS.
	TLS *TLSFiles

	t      testing.TB
	dir    string
	shared bool
	links  []*relay.Relay // one before each server
}

// Start runs a cluster for this test and returns when it is ready. It ends with the test.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	c, err := launch(o, realserver.TestDir(t))
	if c != nil {
		c.t = t
		t.Cleanup(func() {
			c.report(t)
			if err := c.close(); err != nil {
				t.Error(err)
			}
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// launch starts a cluster: see [realserver.Running].
func launch(o Options, dir string) (*Cluster, error) {
	return realserver.Running[Cluster]{
		Start: func(dir string) (*Cluster, error) { return launchOnce(o, dir) },
		Log:   (*Cluster).Log, Close: (*Cluster).close, InUse: "address already in use",
	}.Launch(dir)
}

func launchOnce(o Options, dir string) (*Cluster, error) {
	if o.Servers == 0 {
		o.Servers = 1
	}
	if o.Servers != 1 && o.Servers != 3 {
		return nil, fmt.Errorf("realconsul: Options.Servers is %d: use 1 or 3", o.Servers)
	}
	if o.DNS && o.TLS {
		return nil, errors.New("realconsul: Options.DNS and Options.TLS: there is one port for " +
			"both")
	}
	bin, err := binary()
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir}
	if o.ACL {
		c.Token = uuid()
	}
	if o.TLS {
		if c.TLS, err = MakeTLS(dir); err != nil {
			return nil, err
		}
	}
	for i := range o.Servers {
		if err := c.add(&c.Servers, bin, "coordd-"+strconv.Itoa(i+1)); err != nil {
			return c, err
		}
	}
	for i := range o.Agents {
		if err := c.add(&c.Agents, bin, "coordd-agent-"+strconv.Itoa(i+1)); err != nil {
			return c, err
		}
		c.Agents[i].client = true
	}
	if o.Links {
		if err := c.link(); err != nil {
			return c, err
		}
	}
	for _, s := range c.all() {
		if err := s.writeConfig(o); err != nil {
			return c, err
		}
		if err := s.process.Start(); err != nil {
			return c, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	// one server is always its own leader
	if err := c.waitReady(ctx); err != nil || o.Servers == 1 {
		return c, err
	}
	return c, c.settle(ctx, 2*time.Second)
}

// add makes another node, with ports of its own.
func (c *Cluster) add(to *[]*Server, bin, node string) error {
	ports, err := realserver.TakePorts()
	if err != nil {
		return err
	}
	s := &Server{Node: node, cluster: c, ports: ports,
		config: filepath.Join(c.dir, node+".json"),
		transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			MaxIdleConnsPerHost: 64,
		}}
	s.process = &realserver.Process{
		Command: []string{bin, "agent", "-config-file", s.config},
		LogFile: filepath.Join(c.dir, node+".log"),
		// CONSUL_* is for clients of other servers, GORACE and GOCOVERDIR for the test's own
		// binary.
		HideEnv: []string{"CONSUL_", "GO"},
	}
	s.Levers = s.process.Levers(s.lever)
	*to = append(*to, s)
	return nil
}

// all are the servers and the client agents.
func (c *Cluster) all() []*Server { return slices.Concat(c.Servers, c.Agents) }

// settle returns when all servers have named the same leader for as long as calm, and each has
// taken writes all the time. A server that has not heard from a leader for a second calls an
// election: calm is longer than that.
func (c *Cluster) settle(ctx context.Context, calm time.Duration) error {
	leader, since := "", time.Now()
	for {
		now, err := c.oneLeader(ctx)
		if err == nil && now == leader && time.Since(since) >= calm {
			_, err = c.Servers[0].ask(ctx, http.MethodDelete, settleKey)
			return err
		}
		if now != leader {
			leader, since = now, time.Now()
		}
		if !pause(ctx) {
			return fmt.Errorf("realconsul: no leader stays: %w: last seen: %q for %v, %w",
				context.Cause(ctx), leader, time.Since(since), err)
		}
	}
}

// settleKey is there only during a set-up.
const settleKey = "/v1/kv/realconsul-settles"

// oneLeader names the leader that all servers see, and that has just taken a write from each;
// empty: there is none.
func (c *Cluster) oneLeader(ctx context.Context) (leader string, _ error) {
	for i, s := range c.Servers {
		raw, err := s.get(ctx, "/v1/status/leader")
		if err != nil {
			return "", err
		}
		name := strings.TrimSpace(string(raw))
		if name == `""` || i > 0 && name != leader {
			return "", fmt.Errorf("the servers name %s and %s", leader, name)
		}
		leader = name
		if _, err := s.ask(ctx, http.MethodPut, settleKey); err != nil {
			return "", err
		}
	}
	return leader, nil
}

func (s *Server) writeConfig(o Options) error {
	var join []string
	for _, peer := range s.cluster.Servers {
		join = append(join, net.JoinHostPort(peer.advertised(),
			strconv.Itoa(peer.ports.Base+portSerf)))
	}
	config := map[string]any{
		"server":           true,
		"bootstrap_expect": len(s.cluster.Servers),
		"node_name":        s.Node,
		"datacenter":       "dc1",
		"data_dir":         filepath.Join(s.cluster.dir, s.Node),
		"bind_addr":        s.bound(),
		"serf_lan":         s.advertised(),
		"advertise_addr":   s.advertised(),
		"client_addr":      "127.0.0.1",
		"retry_join":       join,
		"retry_interval":   "1s",
		"ports": map[string]int{
			"http": s.ports.Base + portHTTP, "server": s.ports.Base + portRPC,
			"serf_lan": s.ports.Base + portSerf,
			"https":    -1, "serf_wan": -1, "dns": -1, "grpc": -1, "grpc_tls": -1,
		},
		"performance":          map[string]any{"raft_multiplier": 1},
		"leave_on_terminate":   false,
		"disable_update_check": true,
		"connect":              map[string]any{"enabled": false},
		// A server that was killed must be missed, not replaced: the tests of lost quorums count on
		// it.
		"autopilot": map[string]any{"cleanup_dead_servers": false},
	}
	if s.client {
		for _, name := range []string{"bootstrap_expect", "performance", "leave_on_terminate",
			"autopilot"} {
			delete(config, name)
		}
		config["server"] = false
	}
	if o.ACL {
		config["acl"] = map[string]any{
			"enabled": true, "default_policy": "deny",
			"tokens": map[string]any{"initial_management": s.cluster.Token,
				"agent": s.cluster.Token},
		}
	}
	if o.DNS {
		config["ports"].(map[string]int)["dns"] = s.ports.Base + portDNS
	}
	if o.TLS {
		config["ports"].(map[string]int)["https"] = s.ports.Base + portHTTPS
		config["tls"] = map[string]any{"https": map[string]any{
			"ca_file": s.cluster.TLS.CA, "cert_file": s.cluster.TLS.Cert,
			"key_file": s.cluster.TLS.Key, "verify_incoming": true,
		}}
	}
	maps.Copy(config, o.Config)
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return fmt.Errorf("realconsul: Options.Config: %w", err)
	}
	return os.WriteFile(s.config, text, 0o600)
}

// Addr is the HTTP address, host and port, of the first server.
func (c *Cluster) Addr() string { return c.Servers[0].Addr() }

// Client returns a client of the first server.
func (c *Cluster) Client() *api.Client { return c.Servers[0].Client() }

// Leader returns the server that leads, as the servers that answer say; the test fails when none
// does in time, so this is for the test's own goroutine.
func (c *Cluster) Leader() *Server {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	for {
		for _, s := range c.Servers {
			raw, err := s.get(ctx, "/v1/operator/raft/configuration")
			if err != nil {
				continue
			}
			var raft struct {
				Servers []struct {
					Node   string
					Leader bool
				}
			}
			if json.Unmarshal(raw, &raft) != nil {
				continue
			}
			for _, r := range raft.Servers {
				for _, leader := range c.Servers {
					if r.Leader && r.Node == leader.Node {
						return leader
					}
				}
			}
		}
		if !pause(ctx) {
			c.t.Fatalf("realconsul: no leader within %v", readyTimeout)
		}
	}
}

// WaitReady returns when every server and agent that is running sees a leader, answers consistent
// reads and is in the catalog as healthy, or fails with the context's end.
func (c *Cluster) WaitReady(ctx context.Context) error { return c.waitReady(ctx) }

func (c *Cluster) waitReady(ctx context.Context) error {
	for _, s := range c.all() {
		if err := s.WaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Log returns the last lines of every server's log.
func (c *Cluster) Log() string {
	var b bytes.Buffer
	for _, s := range c.all() {
		fmt.Fprintf(&b, "--- log of %s (%s):\n%s\n", s.Node, s.Addr(), s.process.Tail(logTail))
	}
	return b.String()
}

func (c *Cluster) report(t testing.TB) {
	for _, s := range c.all() {
		if s.process.Crashed() {
			t.Errorf("realconsul: %s ended by itself", s.Node)
		}
	}
	if t.Failed() {
		t.Log(c.Log())
	}
}

func (c *Cluster) close() error {
	var first error
	for _, l := range c.links {
		l.Close()
	}
	for _, s := range c.all() {
		s.transport.CloseIdleConnections()
		// Nothing on disk is of use any more: no need to be polite.
		if err := s.process.End(syscall.SIGKILL); err != nil && first == nil {
			first = err
		}
		s.transport.CloseIdleConnections()
		s.ports.Release()
	}
	return first
}

func uuid() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// pause waits between two looks at a server and tells whether there is time for another.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(20 * time.Millisecond):
		return true
	}
}
