//go:build unix

package realprometheus

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/realserver"
)

// Server is a Prometheus that scrapes and evaluates four times a second.
type Server struct {
	t       testing.TB
	addr    string
	process *realserver.Process
}

// config scrapes at a pace at which a test can wait for what comes of it.
const config = `global:
  scrape_interval: 250ms
  scrape_timeout: 200ms
  evaluation_interval: 250ms
rule_files: [rules.yml]
scrape_configs:
  - job_name: coordd
    static_configs:
      - targets: [%s]
`

// Start runs a Prometheus with these rules, until the end of the test. It returns when the server
// is ready.
func Start(t testing.TB, rules string, targets ...string) *Server {
	t.Helper()
	program, err := find("prometheus")
	if err != nil {
		t.Fatal(err)
	}
	dir := realserver.TestDir(t)
	for name, text := range map[string]string{"rules.yml": rules,
		"prometheus.yml": fmt.Sprintf(config, strings.Join(targets, ", "))} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ports, err := realserver.TakePorts()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ports.Release)
	s := &Server{t: t, addr: "127.0.0.1:" + strconv.Itoa(ports.Base)}
	s.process = &realserver.Process{LogFile: filepath.Join(dir, "log"), Command: []string{program,
		"--config.file=" + filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + s.addr}}
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the log of Prometheus:\n%s", s.process.Tail(20))
		}
		_ = s.process.End(9)
	})
	testkit.Await(t, time.Minute, "Prometheus is ready", func() string {
		if s.process.Crashed() {
			t.Fatalf("Prometheus ended by itself:\n%s", s.process.Tail(20))
		}
		if err := s.get("/-/ready", nil); err != nil {
			return err.Error()
		}
		return ""
	})
	return s
}

// get asks for a path; into gets the answer's JSON.
func (s *Server) get(path string, into any) error {
	client := http.Client{Timeout: 10 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get("http://" + s.addr + path)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, answer.Status)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(answer.Body).Decode(into)
}

// Fired waits until an alert has fired, at any time since the start, with labels that the selector
// matches: service="demo". It returns how long that took.
func (s *Server) Fired(limit time.Duration, alert, selector string) time.Duration {
	s.t.Helper()
	return s.await(limit, alert+" fires", func(n int) bool { return n > 0 },
		`last_over_time(ALERTS{alertname="%s",alertstate="firing",%s}[1h])`, alert, selector)
}

// Cleared waits until none of those fires.
func (s *Server) Cleared(limit time.Duration, alert, selector string) time.Duration {
	s.t.Helper()
	return s.await(limit, alert+" clears", func(n int) bool { return n == 0 },
		`ALERTS{alertname="%s",alertstate="firing",%s}`, alert, selector)
}

func (s *Server) await(limit time.Duration, what string, so func(n int) bool, query string,
	args ...any) time.Duration {
	s.t.Helper()
	return testkit.Await(s.t, limit, what, func() string {
		switch _, n, err := s.Value(fmt.Sprintf(query, args...)); {
		case err != nil:
			return err.Error()
		case !so(n):
			return fmt.Sprintf("%d do", n)
		}
		return ""
	})
}

// Value returns the sum of an instant query's results, and how many there were.
func (s *Server) Value(query string) (sum float64, n int, err error) {
	var answer struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := s.get("/api/v1/query?query="+url.QueryEscape(query), &answer); err != nil {
		return 0, 0, err
	}
	for _, r := range answer.Data.Result {
		text, _ := r.Value[1].(string)
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, 0, err
		}
		sum += v
	}
	return sum, len(answer.Data.Result), nil
}
