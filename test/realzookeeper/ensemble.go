//go:build unix

package realzookeeper

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/test/realserver"
)

// readyTimeout is how long the servers may take to serve. They take half a second, three a second;
// the rest is for a machine that runs other tests with the race detector.
const readyTimeout = 90 * time.Second

// logTail is how many lines of each server's log a failed test prints.
const logTail = 60

// What each port of a server's block is for.
const (
	portClient = iota
	portQuorum
	portElection
	portSecure
)

// Options shape an ensemble. The zero value is one server.
type Options struct {
	// Servers is 1 (also when 0) or 3.
	Servers int
	// Tick is the server's unit of time, 100 ms when 0: sessions live for two ticks at least and
	// are looked at once a tick.
	Tick time.Duration
	// Config holds further settings of zoo.cfg by their names there; they win over the harness's
	// own.
	Config map[string]string
	// KeyStore and TrustStore are PEM files, of a key with its certificate and of the authority
	// that signed it and those of the clients: with them each server takes clients over TLS as
	// well, see SecureAddr, and asks them for a certificate.
	KeyStore, TrustStore string
}

// Ensemble is one server, or three that elect a leader among themselves.
type Ensemble struct {
	Servers []*Server

	t   testing.TB
	dir string
}

// Start runs an ensemble for this test and returns when all of it serves. It ends with the test.
func Start(t testing.TB, o Options) *Ensemble {
	t.Helper()
	e, err := launch(o, realserver.TestDir(t))
	if e != nil {
		e.t = t
		t.Cleanup(func() {
			e.report(t)
			if err := e.close(); err != nil {
				t.Error(err)
			}
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// launch starts an ensemble: see [realserver.Running].
func launch(o Options, dir string) (*Ensemble, error) {
	return realserver.Running[Ensemble]{
		Start: func(dir string) (*Ensemble, error) { return launchOnce(o, dir) },
		Log:   (*Ensemble).Log, Close: (*Ensemble).close, InUse: "Address already in use",
	}.Launch(dir)
}

func launchOnce(o Options, dir string) (*Ensemble, error) {
	if o.Servers == 0 {
		o.Servers = 1
	}
	if o.Tick == 0 {
		o.Tick = 100 * time.Millisecond
	}
	if o.Servers != 1 && o.Servers != 3 {
		return nil, fmt.Errorf("realzookeeper: Options.Servers is %d: use 1 or 3", o.Servers)
	}
	java, classPath, err := find()
	if err != nil {
		return nil, err
	}
	e := &Ensemble{dir: dir}
	for i := range o.Servers {
		ports, err := realserver.TakePorts()
		if err != nil {
			return e, err
		}
		s := &Server{ID: i + 1, ensemble: e, ports: ports, dir: filepath.Join(dir,
			strconv.Itoa(i+1))}
		s.process = &realserver.Process{
			Command: []string{java,
				// For a quick start and a small footprint: the tests' machine has two cores and
				// other work to do.
				"-Xms32m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
				"-Xshare:auto",
				// Files of 64 MB are laid out at each start otherwise; and nobody cuts the power of
				// a test.
				"-Dzookeeper.preAllocSize=1024", "-Dzookeeper.forceSync=no",
				"-Dzookeeper.jmx.log4j.disable=true",
				"-Dorg.slf4j.simpleLogger.showDateTime=true",
				"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
				"-cp", classPath, "org.apache.zookeeper.server.quorum.QuorumPeerMain",
				filepath.Join(s.dir, "zoo.cfg")},
			LogFile: filepath.Join(dir, strconv.Itoa(i+1)+".log"),
			HideEnv: []string{"JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH"},
		}
		s.Levers = s.process.Levers(s.lever)
		e.Servers = append(e.Servers, s)
	}
	for _, s := range e.Servers {
		if err := s.writeConfig(o); err != nil {
			return e, err
		}
		if err := s.process.Start(); err != nil {
			return e, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	return e, e.WaitReady(ctx)
}

func (s *Server) writeConfig(o Options) error {
	config := map[string]string{
		"tickTime":               strconv.FormatInt(o.Tick.Milliseconds(), 10),
		"dataDir":                s.dir,
		"clientPort":             strconv.Itoa(s.ports.Base + portClient),
		"clientPortAddress":      "127.0.0.1",
		"maxClientCnxns":         "0", // the tests open hundreds
		"maxSessionTimeout":      "60000",
		"admin.enableServer":     "false",
		"4lw.commands.whitelist": "*",
		// In ticks, which are short here, while the machine is no faster than others.
		"initLimit": "200",
		"syncLimit": "100",
	}
	if o.Servers > 1 {
		for _, peer := range s.ensemble.Servers {
			config["server."+strconv.Itoa(peer.ID)] = fmt.Sprintf("127.0.0.1:%d:%d",
				peer.ports.Base+portQuorum, peer.ports.Base+portElection)
		}
	}
	if o.KeyStore != "" {
		maps.Copy(config, map[string]string{
			"secureClientPort":        strconv.Itoa(s.ports.Base + portSecure),
			"secureClientPortAddress": "127.0.0.1",
			"serverCnxnFactory":       "org.apache.zookeeper.server.NettyServerCnxnFactory",
			"ssl.keyStore.location":   o.KeyStore, "ssl.keyStore.type": "PEM",
			"ssl.trustStore.location": o.TrustStore, "ssl.trustStore.type": "PEM",
			"ssl.clientAuth": "need",
		})
	}
	maps.Copy(config, o.Config)
	var text bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(config)) {
		fmt.Fprintf(&text, "%s=%s\n", key, config[key])
	}
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return fmt.Errorf("realzookeeper: %w", err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "myid"), []byte(strconv.Itoa(s.ID)),
		0o600); err != nil {
		return fmt.Errorf("realzookeeper: %w", err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "zoo.cfg"), text.Bytes(), 0o600); err != nil {
		return fmt.Errorf("realzookeeper: %w", err)
	}
	return nil
}

// Addrs are the client addresses of all servers.
func (e *Ensemble) Addrs() []string {
	var all []string
	for _, s := range e.Servers {
		all = append(all, s.Addr())
	}
	return all
}

// WaitReady returns when every server serves, or fails with the context's end.
func (e *Ensemble) WaitReady(ctx context.Context) error {
	for _, s := range e.Servers {
		if err := s.WaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Log returns the last lines of every server's log.
func (e *Ensemble) Log() string {
	var b bytes.Buffer
	for _, s := range e.Servers {
		fmt.Fprintf(&b, "--- log of ZooKeeper server %d (%s):\n%s\n", s.ID, s.Addr(),
			s.process.Tail(logTail))
	}
	return b.String()
}

func (e *Ensemble) report(t testing.TB) {
	for _, s := range e.Servers {
		if s.process.Crashed() {
			t.Errorf("realzookeeper: server %d ended by itself", s.ID)
		}
	}
	if t.Failed() {
		t.Log(e.Log())
	}
}

func (e *Ensemble) close() error {
	var first error
	for _, s := range e.Servers {
		// Nothing on disk is of use any more: no need to be polite.
		if err := s.process.End(syscall.SIGKILL); err != nil && first == nil {
			first = err
		}
		s.ports.Release()
	}
	return first
}
