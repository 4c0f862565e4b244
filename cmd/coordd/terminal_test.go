package main

import (
	"bytes"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/printable"
	"github.com/hashicorp/consul/api"
)

// Ids of items and members may hold what changes the direction of writing, and payloads, keys and
// values of the configuration as well. No command shows it as it is, on standard output or on
// standard error. The one that does so by design, config get without --json, is left out.
func TestCommandsShowNoIDsThatATerminalObeys(t *testing.T) {
	const odd = "\u202e" // from right to left
	consul := devconsul.New(devconsul.Config{})
	defer consul.Close()
	server := httptest.NewServer(consul)
	defer server.Close()
	txn := func(op *api.KVTxnOp) { // a path may hold nothing that does not print
		t.Helper()
		if ok, resp, _, err := consul.Client().KV().Txn(api.KVTxnOps{op}, nil); err != nil || !ok {
			t.Fatal(op.Key, resp, err)
		}
	}
	put := func(key, value string) {
		t.Helper()
		txn(&api.KVTxnOp{Verb: api.KVSet, Key: "service/" + key, Value: []byte(value)})
	}
	session, _, err := consul.Client().Session().Create(nil, nil)
	must(t, err)
	lock := func(key, value string) {
		t.Helper()
		txn(&api.KVTxnOp{Verb: api.KVLock, Key: "service/" + key, Value: []byte(value),
			Session: session})
	}
	lock("demo/leader", "n1"+odd)
	lock("demo/members/n1"+odd, `{"status":"alive","version":"`+odd+`","zone":"`+odd+`"}`)
	lock("demo/members/n2"+odd, "alive")
	for _, item := range []string{"w1" + odd, "w2" + odd, "w3" + odd} {
		put("demo/workload/"+item, odd)
	}
	put("demo/workload/w4", odd)
	put("demo/config_data/k"+odd, odd)
	put("demo/config_data/l", "\u009b2J\a\xff")
	put("demo/assignments/n1"+odd+"/w1"+odd, `{"s":"own","why":"spread","sid":"`+session+`"}`)
	put("dem"+odd+"o/workload/x", "")
	none := filepath.Join(t.TempDir(), "none.txt")
	must(t, os.WriteFile(none, nil, 0o600))
	for _, line := range []string{
		"status", "status --json", "status --check", "status --wide", "items",
		"items w1", "items --member n1", "items --json", "explain w1", "explain w1" + odd,
		"locate w1", "locate w1" + odd, "plan", "plan --drain n1" + odd,
		"plan --drain n1", "pin w1 n1", "pin w1 n1 --now", "items --pinned",
		"restart w1", "restart w2" + odd, "restart --member n1", "drain n1", "undrain n1",
		"unpin w1", "events", "events w1", "work rm w1", "work add a --service demos",
		"work export", "work sync " + none + " --dry-run", "config list",
		"config list --json", "config get l --json", "config get k" + odd + " --json",
		"config get m" + odd, "config rm m" + odd,
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), surroundings{
			args: append(strings.Split(line, " "), "--consul", server.URL),
			env:  func(name string) (string, bool) { return "demo", name == "COORDD_SERVICE" },
			in:   strings.NewReader(""), out: &out, err: &errs})
		if out.Len()+errs.Len() == 0 && !strings.HasPrefix(line, "events") {
			t.Errorf("coordd %+q (%d) says nothing", line, code)
		}
		for name, said := range map[string]string{"output": out.String(), "error": errs.String()} {
			if strings.ContainsFunc(said, func(r rune) bool {
				return printable.Hidden(r) && r != '\n' && (r != '\t' || line == "locate w1"+odd)
			}) {
				t.Errorf("coordd %+q (%d), on standard %s:\n%+q", line, code, name, said)
			}
		}
	}
}
