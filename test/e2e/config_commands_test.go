//go:build linux

package e2e_test

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/realconsul"
)

// What is written on a real Consul is read as it was by the commands, and by Consul's own client:
// empty values, which Consul returns as null, any bytes, and the names that its paths could mistake.
func TestConfigValuesOfAnyKindAreTheSameOnARealConsul(t *testing.T) {
	t.Parallel()
	consul := realconsul.Shared(t)
	const service = "config-kinds"
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
	for key, value := range values {
		put := exec.Command(binary, "config", "put", key, "-", "--service", service, "--consul",
			consul.Addr())
		put.Stdin = bytes.NewReader(value)
		if said, err := put.CombinedOutput(); err != nil {
			t.Fatalf("config put %q: %v: %s", key, err, said)
		}
	}
	for key, want := range values {
		if got := command("get", key, "--service", service); got != string(want) {
			t.Errorf("config get %q: %d bytes, want %d", key, len(got), len(want))
		}
		pair, _, err := kv.Get("service/"+service+"/config_data/"+key,
			&api.QueryOptions{RequireConsistent: true})
		if err != nil || pair == nil || !bytes.Equal(pair.Value, want) {
			t.Errorf("Consul has %v of %q, %v", pair, key, err)
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
	command("rm", "empty", "--service", service)
	testkit.Await(t, time.Minute, "the watch shows the delete", func() string {
		return holds(w.stdout(), `"key":"empty","deleted":true`)
	})
	w.Kill()
}

// holds is what testkit.Await wants: empty once text holds what.
func holds(text, what string) string {
	if strings.Contains(text, what) {
		return ""
	}
	return fmt.Sprintf("no %s in %s", what, text[max(0, len(text)-1000):])
}
