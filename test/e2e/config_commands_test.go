//go:build linux

package e2e_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/realconsul"
)

// What is written on a real Consul is read as it was by the commands, by Consul's own client, and
// after an export and an import: empty values, which Consul returns as null, any bytes, and the
// names that its paths could mistake.
func TestConfigValuesOfAnyKindAreTheSameOnARealConsul(t *testing.T) {
	t.Parallel()
	consul := realconsul.Shared(t)
	const service, copied = "config-kinds", "config-kinds-copy"
	dir := t.TempDir()
	command := func(args ...string) string {
		t.Helper()
		stdout, stderr, code := once(t, append([]string{"config"}, append(args, "--consul",
			consul.Addr())...)...)
		if code != 0 {
			t.Fatalf("config %q: exit code %d: %s", args, code, stderr)
		}
		return stdout
	}
	bytesOf256 := make([]byte, 256)
	for i := range bytesOf256 {
		bytesOf256[i] = byte(i)
	}
	values := map[string][]byte{
		"empty": {}, "bytes": bytesOf256, "large": bytes.Repeat([]byte{0xff, 0}, 190<<10),
		"a b": []byte("x"), "größe/ключ": []byte("ü"), "100%": []byte("%"), "A": []byte("upper"),
		"a":         []byte("lower"),
		"q?x=1&y#z": []byte("?"), `quote"back\slash`: []byte("\n"), "+": []byte("+"),
		"dots...in/it": []byte("."),
	}
	kv := consul.Client().KV()
	var lines bytes.Buffer
	for key, value := range values {
		fmt.Fprintf(&lines, "{\"key\": %q, \"value_base64\": %q}\n", key, encoded(value))
	}
	file := filepath.Join(dir, "in.jsonl")
	must(t, os.WriteFile(file, lines.Bytes(), 0o600))
	command("import", file, "--service", service, "--wait", "50s")
	out := filepath.Join(dir, "out.jsonl")
	command("export", out, "--service", service)
	command("import", out, "--service", copied, "--wait", "50s")
	for key, want := range values {
		for _, s := range []string{service, copied} {
			if got := command("get", key, "--service", s); got != string(want) {
				t.Errorf("%s: config get %q: %d bytes, want %d", s, key, len(got), len(want))
			}
			pair, _, err := kv.Get("service/"+s+"/config_data/"+key,
				&api.QueryOptions{RequireConsistent: true})
			if err != nil || pair == nil || !bytes.Equal(pair.Value, want) {
				t.Errorf("%s: Consul has %v of %q, %v", s, pair, key, err)
			}
		}
	}
	// What the system before this one has written is read, and a member's cache follows it.
	if _, err := kv.Put(&api.KVPair{Key: "service/" + service + "/config_data/theirs"},
		nil); err != nil {
		t.Fatal(err)
	}
	w := launch(t, nil, "config", "watch", "--service", service, "--consul", consul.Addr())
	testkit.Await(t, time.Minute, "the watch shows an empty value of a stranger", func() string {
		return holds(w.stdout(), `"key":"theirs"`)
	})
	if _, err := kv.Put(&api.KVPair{Key: "service/" + service + "/config_data/theirs",
		Value: []byte("new")}, nil); err != nil {
		t.Fatal(err)
	}
	testkit.Await(t, time.Minute, "the watch shows the change", func() string {
		return holds(w.stdout(), `"value":"new"`)
	})
	command("rm", "theirs", "empty", "--service", service)
	testkit.Await(t, time.Minute, "the watch shows the deletes", func() string {
		return holds(w.stdout(), `"key":"empty","index":0,"deleted":true`)
	})
	w.Kill()
}

func encoded(value []byte) string { return base64.StdEncoding.EncodeToString(value) }

// holds is what testkit.Await wants: empty once text holds what.
func holds(text, what string) string {
	if strings.Contains(text, what) {
		return ""
	}
	return fmt.Sprintf("no %s in %s", what, text[max(0, len(text)-1000):])
}
