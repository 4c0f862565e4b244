//go:build linux && coordd_long

package e2e_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/test/realconsul"
)

// A leader that hangs, and one that is lost with its guard and its command, is noticed by its
// health check: another one runs the command within check-ttl + lock-delay and a second. Consul
// would let the session live for 2 x ttl, 20 s, and the lock-delay comes after that.
func TestALostLeadersCommandRunsElsewhereWithinTheBound(t *testing.T) {
	t.Parallel()
	consul := realconsul.Shared(t)
	for name, s := range map[string]struct {
		times []string
		bound time.Duration
	}{
		"defaults": {[]string{}, 17500 * time.Millisecond},
		"short":    {[]string{"--lease", "3s", "--check-ttl", "1s"}, 5 * time.Second},
		"none":     {[]string{"--check-ttl", "none"}, 31 * time.Second},
	} {
		for how, end := range map[string]func(*contest, string){
			"hung": func(e *contest, id string) { e.candidates[id].signal(syscall.SIGSTOP) },
			"lost": (*contest).lose,
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				e := &contest{t: t, dir: workDir(t), name: "bound",
					candidates: map[string]*program{},
					flags: []string{"--consul", consul.Addr(), "--prefix",
						realconsul.Prefix(t)},
					times: s.times}
				e.run("n1")
				e.leads("n1")
				e.run("n2")
				if says := e.candidates["n1"].stderr(); !strings.Contains(says,
					fmt.Sprintf("take_over=%v", s.bound)) {
					t.Errorf("n1 does not say %v:%s", s.bound, tail(says, 5))
				}
				begin := time.Now()
				end(e, "n1")
				e.leads("n2")
				took := time.Since(begin)
				if took > s.bound+workLimit {
					t.Errorf("n2 leads after %v, want %v", took, s.bound)
				}
				e.judge("n1", "n2")
				if how == "hung" {
					e.candidates["n1"].signal(syscall.SIGCONT)
				}
				t.Logf("%s, %s: %v; the bound is %v", name, how, took.Round(10*time.Millisecond),
					s.bound)
			})
		}
	}
}
