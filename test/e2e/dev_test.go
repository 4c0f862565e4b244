//go:build linux

package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit"
)

var (
	pageLine   = regexp.MustCompile(`(?m)^ *page +(http://\S+/)$`)
	consulLine = regexp.MustCompile(`(?m)^ *Consul +(\S+)$`)
)

// launchDev starts coordd dev, and returns the addresses of its page and of its Consul.
func launchDev(t *testing.T, args ...string) (p *program, page, consul string) {
	t.Helper()
	p = launch(t, nil, append([]string{"dev", "--http", "127.0.0.1:0"}, args...)...)
	testkit.Await(t, workLimit, "it prints its addresses", func() string {
		if !pageLine.MatchString(p.stdout()) || !consulLine.MatchString(p.stdout()) {
			return "printed so far: " + p.stdout()
		}
		return ""
	})
	return p, pageLine.FindStringSubmatch(p.stdout())[1],
		consulLine.FindStringSubmatch(p.stdout())[1]
}

func TestDevSharesAHundredItemsAmongThreeMembersWithinSecondsAndStopsWithinTwo(t *testing.T) {
	t.Parallel()
	began := time.Now()
	p, page, consul := launchDev(t)

	client := &http.Client{Transport: &http.Transport{}, Timeout: workLimit}
	defer client.CloseIdleConnections()
	get := func(path string) (string, error) {
		resp, err := client.Get(page + path)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("/%s: %s: %s", path, resp.Status, body)
		}
		return string(body), err
	}
	var st status
	testkit.Await(t, workLimit, "three members share 100 items", func() string {
		body, err := get("v1/status")
		if err != nil {
			return err.Error()
		}
		st = status{}
		if err := json.Unmarshal([]byte(body), &st); err != nil {
			return err.Error()
		}
		return st.unlike(3, 100)
	})
	t.Logf("shared %v after the start", time.Since(began).Round(time.Millisecond))
	var shares []int
	for _, m := range st.Members {
		shares = append(shares, m.Items)
	}
	if slices.Sort(shares); !slices.Equal(shares, []int{33, 33, 34}) {
		t.Errorf("the shares are %v", shares)
	}
	if body, err := get(""); err != nil || !strings.Contains(body, "<html") {
		t.Errorf("the page: %v: %.200s", err, body)
	}
	if _, err := get("healthz"); err != nil {
		t.Error(err)
	}
	// Other commands take part, as the text says.
	stdout, stderr, code := once(t, "status", "--json", "--consul", consul)
	var other status
	if err := json.Unmarshal([]byte(stdout), &other); code != 0 || err != nil ||
		other.unlike(3, 100) != "" {
		t.Errorf("coordd status against it: exit code %d, %v: %s%s", code, err, stderr, stdout)
	}

	// Each member has an ordinary page of its own, with its metrics and its actors, and no buttons.
	page = "http://" + st.Members[0].Address + "/"
	for path, part := range map[string]string{"metrics": "coordd_lease_seconds{",
		"v1/tree": `"session-renewer"`, "": `<body class="empty">`} {
		if body, err := get(path); err != nil || !strings.Contains(body, part) {
			t.Errorf("/%s of a member has no %s: %v: %.300s", path, part, err, body)
		}
	}
	if _, err := get("v1/actions"); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("a member offers actions: %v", err)
	}

	p.signal(syscall.SIGINT)
	code, took := p.ends(workLimit)
	if code != 0 || took > 2*time.Second {
		t.Errorf("after SIGINT it ended with code %d in %v, not with 0 within 2 s", code, took)
	}
	t.Logf("SIGINT: gone after %v", took.Round(time.Millisecond))
	if _, err := get(""); err == nil {
		t.Error("the page is still served")
	}
}
