//go:build linux

package deploy_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"testing"

	"github.com/coordd/coordd/internal/testkit"
)

func TestARequestThatReachesAnyMemberIsCountedByTheOwner(t *testing.T) {
	s := newStage(t)
	path := example(t, "routed")
	fronts := map[string]string{}
	members := map[string]*process{}
	for _, id := range []string{"n1", "n2"} {
		at := freeAddresses(t, 2)
		fronts[id] = at[0]
		members[id] = s.start(path, nil, "-id", id, "-front", at[0], "-service", at[1])
	}
	s.coordd("work", "add", "home", "--service", "routed")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: limit}
	ask := func(method, front string) (string, error) {
		request, err := http.NewRequestWithContext(t.Context(), method,
			"http://"+front+"/home", nil)
		if err != nil {
			return "", err
		}
		answer, err := client.Do(request)
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err == nil && answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", answer.Status, text)
		}
		return string(text), err
	}
	home := regexp.MustCompile(`^home (\d+) at (n\d)\n$`)
	// until asks at a front until the answer is from a member with that count.
	until := func(method, front, count, not string) (owner string) {
		t.Helper()
		testkit.Await(t, limit, "home at "+front, func() string {
			text, err := ask(method, front)
			found := home.FindStringSubmatch(text)
			if err != nil || found == nil || found[1] != count || found[2] == not {
				return fmt.Sprint(text, err)
			}
			owner = found[2]
			return ""
		})
		return owner
	}
	until(http.MethodGet, fronts["n2"], "0", "") // both are there
	owner := until(http.MethodGet, fronts["n1"], "0", "")
	for i := range 4 {
		front := fronts[[]string{"n1", "n2"}[i%2]]
		if text, err := ask(http.MethodPost, front); text != fmt.Sprintf("home %d at %s\n", i+1,
			owner) {
			t.Errorf("visit %d at %s: %q, %v", i+1, front, text, err)
		}
	}
	// Its owner stops: the other one begins anew, and is found through its own front.
	members[owner].stop()
	for id, p := range members {
		if id != owner {
			until(http.MethodGet, fronts[id], "0", owner)
			p.stop()
		}
	}
}

// freeAddresses are of ports that nobody listens on.
func freeAddresses(t *testing.T, n int) (all []string) {
	t.Helper()
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer ln.Close()
		all = append(all, ln.Addr().String())
	}
	return all
}
