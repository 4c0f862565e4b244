//go:build linux && coordd_long

package e2e_test

import (
	"regexp"
	"testing"

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
