//go:build coordd_elections

package onconsul_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/test/realconsul"
	"github.com/hashicorp/consul/api"
)

// manyPolls is a server that takes many long polls from one address.
var manyPolls = realconsul.Options{Config: map[string]any{
	"limits": map[string]any{"http_max_conns_per_client": 5000}}}

// TestRealConsul plays all scenarios on a real Consul. Those that stop the server have one of their
// own.
func TestRealConsul(t *testing.T) {
	shared := realconsul.Start(t, manyPolls)
	electiontest.Run(t, func(t *testing.T, play func(*testing.T, electiontest.Store)) {
		t.Parallel()
		s := &real{t: t, cluster: shared, prefix: realconsul.Prefix(t)}
		if strings.Contains(t.Name(), "/AStore") {
			s.cluster = realconsul.Start(t, manyPolls)
		}
		play(t, s)
	})
}

type real struct {
	t       *testing.T
	cluster *realconsul.Cluster
	prefix  string
}

func (s *real) Virtual() bool { return false }

func (s *real) Stop() {
	s.t.Helper()
	if err := s.cluster.Servers[0].Kill(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *real) Start() {
	s.t.Helper()
	if err := s.cluster.Servers[0].Start(); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.cluster.WaitReady(ctx); err != nil {
		s.t.Fatal(err)
	}
}

func (s *real) Restore() {
	saved, _, err := s.cluster.Client().Snapshot().Save(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer saved.Close()
	if err := s.cluster.Client().Snapshot().Restore(nil, saved); err != nil {
		s.t.Fatal(err)
	}
}

func (s *real) Connect() electiontest.Link {
	transport := &http.Transport{MaxIdleConnsPerHost: 1000}
	w := &wire{next: transport}
	client, err := api.NewClient(&api.Config{Address: s.cluster.Addr(),
		HttpClient: &http.Client{Transport: w}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(transport.CloseIdleConnections)
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	return connect(s.t, onconsul.Config{Client: client, Logger: log, Prefix: s.prefix},
		w, s.cluster.Client())
}
