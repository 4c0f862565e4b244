//go:build linux && coordd_official

package official_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
)

// standIn is the name by which this binary is Consul's.
const standIn = "consul"

// agentConfig is what the stand-in heeds of the configuration that the official tests write. The
// rest is about ports, logs and elections that the embedded server does not have.
type agentConfig struct {
	NodeName   string `json:"node_name"`
	NodeID     string `json:"node_id"`
	Datacenter string `json:"datacenter"`
	Ports      struct {
		HTTP int `json:"http"`
	} `json:"ports"`
	Addresses struct {
		HTTP string `json:"http"`
	} `json:"addresses"`
	ACL struct {
		Enabled bool `json:"enabled"`
	} `json:"acl"`
}

// caRoots answers /v1/agent/connect/ca/roots. Before each test the helpers of the official tests
// wait for a certificate authority. The embedded server has none.
const caRoots = `{"ActiveRootID": "none", "Roots": [{"ID": "none"}]}`

// playConsul does what the official tests execute consul for. It returns the exit code.
func playConsul(args []string) int {
	var err error
	switch {
	case slices.Equal(args, []string{"version", "-format=json"}):
		err = printVersion()
	case len(args) == 3 && args[0] == "agent" && args[1] == "-config-file":
		err = serve(args[2])
	default:
		err = fmt.Errorf("unknown arguments %q: the stand-in knows `version -format=json` and "+
			"`agent -config-file FILE`", args)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "consul (embedded):", err)
		return 1
	}
	return 0
}

func printVersion() error {
	server := devconsul.New(devconsul.Config{})
	defer server.Close()
	self, err := server.Client().Agent().Self()
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"Version": self["Config"]["Version"]})
}

// serve serves the embedded server until an interrupt, as `consul agent` does.
func serve(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var c agentConfig
	if err := json.Unmarshal(text, &c); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if c.ACL.Enabled || c.Addresses.HTTP != "" {
		return errors.New("the embedded server has no ACLs, and listens on TCP only")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(c.Ports.HTTP))
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	server := devconsul.New(devconsul.Config{NodeName: c.NodeName, NodeID: c.NodeID,
		Datacenter: c.Datacenter})
	front := http.Server{Handler: withCARoots(server), ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() {
		server.Close()
		front.Close()
	})()
	if err := front.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func withCARoots(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/agent/connect/ca/roots" {
			io.WriteString(w, caRoots)
			return
		}
		next.ServeHTTP(w, r)
	})
}
