//go:build linux

package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/realconsul"
)

// scrutiny stands between a config store and Consul and counts how often each config value was
// accepted. A transaction that has reached it goes on to Consul even when its sender is killed
// meanwhile.
type scrutiny struct {
	addr string

	mu       sync.Mutex
	accepted map[string]int // "key=value"
}

func newScrutiny(t *testing.T, consul string) *scrutiny {
	t.Helper()
	s := &scrutiny{accepted: map[string]int{}}
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: consul})
	forward.Transport = transport
	forward.ErrorLog = log.New(io.Discard, "", 0)
	var flying sync.WaitGroup
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/txn" {
			forward.ServeHTTP(w, r)
			return
		}
		flying.Add(1)
		defer flying.Done()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // killed while it was sending: Consul would not take half a request either
		}
		req, err := http.NewRequest(r.Method, "http://"+consul+r.URL.String(),
			bytes.NewReader(body))
		if err != nil {
			return
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		answer, _ := io.ReadAll(resp.Body)
		if resp.StatusCode == http.StatusOK {
			s.note(body)
		}
		for name, values := range resp.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(resp.StatusCode)
		_, _ = w.Write(answer)
	}))
	s.addr = strings.TrimPrefix(server.URL, "http://")
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		flying.Wait()
		transport.CloseIdleConnections()
	})
	return s
}

func (s *scrutiny) note(body []byte) {
	var ops []struct {
		KV struct {
			Verb, Key string
			Value     []byte
		}
	}
	if json.Unmarshal(body, &ops) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, op := range ops {
		if _, key, ok := strings.Cut(op.KV.Key, "/config_data/"); ok && (op.KV.Verb == "set" ||
			op.KV.Verb == "cas") {
			s.accepted[key+"="+string(op.KV.Value)]++
		}
	}
}

func (s *scrutiny) times(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted[what]
}

var listening = regexp.MustCompile(` http=(127\.0\.0\.1:\d+)`)

func TestConfigWritesSurviveKillsAtAnyPointEachOnce(t *testing.T) {
	t.Parallel()
	const writes, keys = 1000, 40
	consul := realconsul.Shared(t)
	proxy := newScrutiny(t, consul.Addr())
	service, dir := "config-kill", filepath.Join(t.TempDir(), "log")
	client := &http.Client{Timeout: workLimit, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()

	var p *program
	var base string
	start := func() {
		t.Helper()
		p = launch(t, nil, "run", "--service", service, "--id", "c1", "--consul", proxy.addr,
			"--backend", "consul", "--config-log", dir, "--http", "127.0.0.1:0")
		testkit.Await(t, 2*time.Minute, "it listens and has loaded", func() string {
			m := listening.FindStringSubmatch(p.stderr())
			if m == nil {
				return "no address yet: " + p.stderr()
			}
			base = "http://" + m[1] + "/config/"
			resp, err := client.Get(base + "root")
			if err != nil {
				return err.Error()
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				return testkit.Instead(resp.Status)
			}
			return ""
		})
	}
	// put tells whether the write was acknowledged.
	put := func(key, value string) bool {
		req, err := http.NewRequest(http.MethodPut, base+key, strings.NewReader(value))
		must(t, err)
		resp, err := client.Do(req)
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusNoContent
	}

	start()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	acked, kills, next := map[int]bool{}, 0, 30
	for i := range writes {
		var killed chan struct{}
		if i == next {
			killed = make(chan struct{})
			victim, after := p, time.Duration(random.IntN(4000))*time.Microsecond
			go func() {
				defer close(killed)
				time.Sleep(after)
				victim.Kill()
			}()
		}
		acked[i] = put(fmt.Sprintf("k%d", i%keys), fmt.Sprint(i))
		if killed != nil {
			<-killed
			kills++
			next = i + 60 + random.IntN(60)
			start()
		}
	}
	p.Kill()
	start() // it sends what is left in the log
	testkit.Await(t, time.Minute, "each acknowledged write is applied", func() string {
		for i := range writes {
			if acked[i] && proxy.times(fmt.Sprintf("k%d=%d", i%keys, i)) == 0 {
				return fmt.Sprintf("write %d is not", i)
			}
		}
		return ""
	})

	total, left := 0, 0
	for i := range writes {
		n := proxy.times(fmt.Sprintf("k%d=%d", i%keys, i))
		switch {
		case n > 1:
			t.Errorf("write %d was applied %d times", i, n)
		case acked[i] && n == 0:
			t.Errorf("write %d was acknowledged and never applied", i)
		}
		if acked[i] {
			total++
		} else if n == 1 {
			left++
		}
	}
	for k := range keys {
		newest := -1
		for i := k; i < writes; i += keys {
			if proxy.times(fmt.Sprintf("k%d=%d", k, i)) > 0 {
				newest = i
			}
		}
		pair, _, err := consul.Client().KV().Get(fmt.Sprintf("service/%s/config_data/k%d", service,
			k), &api.QueryOptions{RequireConsistent: true})
		if err != nil || pair == nil || string(pair.Value) != fmt.Sprint(newest) {
			t.Errorf("k%d: Consul holds %v (%v), the newest write that was applied is %d", k, pair,
				err, newest)
		}
	}
	if total < writes/2 || kills < 5 {
		t.Errorf("only %d writes were acknowledged, and %d kills: the test proves little", total,
			kills)
	}
	t.Logf("%d of %d writes acknowledged, %d more applied after their process was killed, %d kills",
		total, writes, left, kills)
}
