package conformance_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/test/realconsul"
)

// commands are played in order. ${s} is a session of the server's.
var commands = [][]string{
	{"kv", "put", "cli/a", "one"},
	{"kv", "put", "-flags=42", "cli/b", "two"},
	{"kv", "put", "cli/empty"},
	{"kv", "get", "cli/a"},
	{"kv", "get", "cli/none"},
	{"kv", "get", "-detailed", "cli/b"},
	{"kv", "get", "-base64", "cli/a"},
	{"kv", "get", "-recurse", "cli/"},
	{"kv", "get", "-recurse", "-stale", "cli/"},
	{"kv", "get", "-keys", "cli/"},
	{"kv", "get", "-keys", "-separator=", ""},
	{"kv", "put", "-cas", "-modify-index=0", "cli/a", "three"},
	{"kv", "put", "-cas", "-modify-index=0", "cli/new", "three"},
	{"kv", "put", "-cas", "-modify-index=1", "cli/a", "three"},
	{"kv", "delete", "-cas", "-modify-index=1", "cli/a"},
	{"kv", "put", "-acquire", "-session=${s}", "cli/lock", "me"},
	{"kv", "get", "-detailed", "cli/lock"},
	{"kv", "put", "-release", "-session=${s}", "cli/lock", "me"},
	{"kv", "put", "-acquire", "-session=00000000-0000-0000-0000-000000000000", "cli/lock", "me"},
	{"kv", "export", "cli/"},
	{"kv", "import", `[{"key": "cli/in", "flags": 1, "value": "eA=="}]`},
	{"kv", "get", "cli/in"},
	{"kv", "delete", "cli/a"},
	{"kv", "delete", "-recurse", "cli/"},
	{"kv", "get", "-recurse", "cli/"},
	{"lock", "-n=1", "-timeout=5s", "cli/held", "echo held"},
	{"lock", "-n=3", "-timeout=5s", "cli/slots", "echo held"},
	{"watch", "-type=key", "-key=cli/held/.lock"},
	{"watch", "-type=keyprefix", "-prefix=none/"},
	{"catalog", "datacenters"},
	{"catalog", "nodes"},
	{"catalog", "services"},
	{"services", "register", "-name=cli-web", "-port=80"},
	{"catalog", "services", "-tags"},
	{"services", "deregister", "-id=cli-web"},
	{"members"},
	{"members", "-status=left"},
}

// The columns of a table are as wide as their widest entry, which is an address with a port of four
// or five digits.
var (
	spaces  = regexp.MustCompile(` +`)
	indexes = regexp.MustCompile(`(?m)^((?:Create|Modify)Index)\s+\d+$`)
	nodeIDs = regexp.MustCompile(`(?m)^(coordd-1 )[0-9a-f]{8} `)
)

// TestTheConsulCommandPrintsTheSame runs Consul's own command against both servers.
func TestTheConsulCommandPrintsTheSame(t *testing.T) {
	t.Parallel()
	binary := realconsul.Binary(t)
	play := func(tg target) []string {
		id, _, err := tg.client(t).Session().CreateNoChecks(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		environment := append(slices.DeleteFunc(os.Environ(), func(kv string) bool {
			return strings.HasPrefix(kv, "CONSUL_")
		}),
			"CONSUL_HTTP_ADDR="+tg.base)
		var answers []string
		for _, args := range commands {
			args = slices.Clone(args)
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "${s}", id)
			}
			cmd := exec.CommandContext(t.Context(), binary, args...)
			cmd.Env = environment
			out, err := cmd.CombinedOutput()
			if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			text := strings.ReplaceAll(string(out), id, "<session>")
			text = portPattern.ReplaceAllString(strings.ReplaceAll(text, tg.base,
				"http://<server>"), "127.0.0.1:<port>")
			text = indexes.ReplaceAllString(spaces.ReplaceAllString(text, " "), "$1 #")
			text = nodeIDs.ReplaceAllString(uuidPattern.ReplaceAllString(text, "<uuid>"), "$1<id> ")
			answers = append(answers, fmt.Sprintf("exit code %d\n%s", cmd.ProcessState.ExitCode(),
				text))
		}
		return answers
	}
	real := play(targetOf(t, realconsul.Start(t, realconsul.Options{})))
	embedded := play(embeddedOnPort(t))
	for i, args := range commands {
		if real[i] != embedded[i] {
			t.Errorf("consul %s\nreal server:\n%s\nembedded:\n%s", strings.Join(args, " "),
				indent(real[i]), indent(embedded[i]))
		} else {
			t.Logf("consul %s\n%s", strings.Join(args, " "), indent(real[i]))
		}
	}
}
