//go:build linux

package e2e_test

import (
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/test/realconsul"
)

// Consul's Community Edition refuses namespaces and partitions, but for transactions, which it
// carries out in the only namespace that it has: no command gets that far.
func TestTheCommunityEditionsRefusalIsClearAndNothingIsWritten(t *testing.T) {
	t.Parallel()
	consul := realconsul.Start(t, realconsul.Options{})
	for _, c := range []struct {
		env  string
		args string
	}{
		{"", "status --namespace team"},
		{"", "work add --namespace team a"},
		{"CONSUL_NAMESPACE=team", "work add a"},
		{"CONSUL_PARTITION=team", "freeze"},
		{"", "config put --partition team a b"},
		{"COORDD_NAMESPACE=team", "run --id n1 --hold-items"},
		{"", "elect report --status --namespace team"},
	} {
		p := launch(t, []string{"CONSUL_HTTP_ADDR=" + consul.Addr(), c.env},
			strings.Fields(c.args)...)
		code, _ := p.ends(time.Minute)
		if out := p.stderr(); code != 2 || !strings.Contains(out, "Community Edition") ||
			!strings.Contains(out, "--namespace") {
			t.Errorf("%s coordd %s: exit code %d: %s", c.env, c.args, code, out)
		}
	}
	keys, _, err := consul.Client().KV().Keys("", "", nil)
	if err != nil || len(keys) > 0 {
		t.Errorf("Consul has the keys %q, %v", keys, err)
	}
	for args, want := range map[string]string{"status --datacenter dc1": "0 items",
		"status --datacenter dc7": "is the datacenter's name right (--datacenter)?"} {
		out, errs, _ := once(t, append(strings.Fields(args), "--consul", consul.Addr())...)
		if !strings.Contains(out+errs, want) {
			t.Errorf("coordd %s: %s%s", args, out, errs)
		}
	}
}
