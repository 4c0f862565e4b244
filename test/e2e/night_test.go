//go:build linux && coordd_long

package e2e_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/realconsul"
)

var updateNight = flag.Bool("update-night", false, "write the console of docs/night.md anew")

const nightFile = "../../docs/night.md"

// nightWork is work of which an item that is broken ends at once, until it is mended.
var nightWork = strings.Replace(work, "read -r payload\n",
	"read -r payload; [ \"$payload\" = broken ] && exit 3\n", 1)

// night is a story that docs/night.md tells: the commands that somebody on call types, and what
// they print.
type night struct {
	*watched
	console []string // blocks of docs/night.md, in its order
}

// types runs a command and keeps what it prints for the document. The exit code is that of the
// story: 1 where something is wrong.
func (n *night) types(code int, args ...string) string {
	n.t.Helper()
	stdout, stderr, got := once(n.t, append(args, "--service", n.name, "--consul", n.consul)...)
	if got != code {
		n.t.Fatalf("coordd %s: exit code %d, not %d: %s%s", strings.Join(args, " "), got, code,
			stdout, stderr)
	}
	n.console = append(n.console, strings.ReplaceAll(fmt.Sprintf("$ coordd %s\n%s%s",
		strings.Join(args, " "), stdout, stderr), n.name, "demo"))
	return stdout
}

// until asks until the answer contains a text, and shows nothing of it.
func (n *night) until(text string, args ...string) {
	n.t.Helper()
	testkit.Await(n.t, workLimit, text, func() string {
		if got, _ := n.ask(args...); !strings.Contains(got, text) {
			return testkit.Instead(got)
		}
		return ""
	})
}

// What differs from night to night: times, tokens, which member it is, how often was counted.
var (
	aVersion  = regexp.MustCompile(`v\d+\.\d+\.\d+\S*|\(devel\)`)
	aDay      = regexp.MustCompile(`\d{4}-\d\d-\d\d`)
	aDuration = regexp.MustCompile(`\b(\d+(\.\d+)?(h|ms|m|s))+\b`)
	aMember   = regexp.MustCompile(`\bn\d\b`)
	aNumber   = regexp.MustCompile(`(^|[^a-z0-9.-])\d+`)
	aSpace    = regexp.MustCompile(`[ \t]+`)
)

// documented holds the blocks of docs/night.md to what was printed, or writes them anew.
func (n *night) documented() {
	n.t.Helper()
	text, err := os.ReadFile(nightFile)
	if err != nil {
		n.t.Fatal(err)
	}
	parts := strings.Split(string(text), "```console\n")
	if len(parts) != len(n.console)+1 {
		n.t.Fatalf("%s has %d consoles, and %d commands were typed", nightFile, len(parts)-1,
			len(n.console))
	}
	for i, got := range n.console {
		block, rest, _ := strings.Cut(parts[i+1], "```\n")
		if *updateNight {
			parts[i+1] = got + "```\n" + rest
		} else if sameNight(block) != sameNight(got) {
			n.t.Errorf("%s shows\n%s\nand it is\n%s\n(go test -tags coordd_long ./test/e2e -run Night -update-night)",
				nightFile, block, got)
		}
	}
	if *updateNight {
		if err := os.WriteFile(nightFile, []byte(strings.Join(parts, "```console\n")),
			0o644); err != nil {
			n.t.Fatal(err)
		}
	}
}

// where says which member runs each item.
func (n *night) where() map[string]string {
	all := map[string]string{}
	for id := range n.members {
		for _, item := range n.of(id) {
			all[item] = id
		}
	}
	return all
}

func TestANightOnCall(t *testing.T) {
	t.Parallel()
	var alerts sync.Map
	ids := []string{"n1", "n2", "n3", "n4", "n5"}
	n := &night{watched: watch(t, realconsul.Shared(t).Addr(), &alerts, ids)}
	n.exec = nightWork
	// A short lease makes the night short; the grace leaves time to look at what waits.
	flags := []string{"--leader-soak", "1s", "--grace", "20s", "--keep-items", "1m",
		"--restart-wait", "1h", "--max-restarts", "2"}
	if nightItems <= 1000 {
		flags = append(flags, "--lease", "3s")
	}
	all := fmt.Sprint(nightItems, " running")
	n.member("n1", flags...)
	testkit.Await(t, startLimit, "n1 leads", func() string { return n.now().unlike(1, 0) })
	for _, id := range ids[1:] {
		n.member(id, flags...)
	}
	testkit.Await(t, startLimit, "five members", func() string { return n.now().unlike(5, 0) })
	n.service.seen()
	items := n.share(nightItems)
	n.until(all, "status")
	n.quiet()
	n.types(0, "status")

	// 3:00: a machine is lost.
	its := n.of("n4")
	n.during(func() {
		n.members["n4"].Kill() // its guard ends the commands, and hands nothing over
	}, func() {
		n.until("n4 is gone", "status", "--check")
		n.types(1, "status", "--check")
		n.types(0, "explain", its[0])
		n.until(all, "status")
	}, "CoorddItemsNotRunning")
	n.runs(items)
	n.types(0, "events", "n4")

	// The machine is back.
	n.member("n4", flags...)
	testkit.Await(t, workLimit, "every member has its share", func() string {
		return n.now().unlike(5, nightItems)
	})

	// One machine is to be looked after.
	n.types(0, "drain", "n2", "--deadline", "10m", "--wait")
	if got := n.of("n2"); len(got) > 0 {
		t.Errorf("the drained member runs %q", got)
	}
	n.types(0, "undrain", "n2")
	testkit.Await(t, workLimit, "every member has its share", func() string {
		return n.now().unlike(5, nightItems)
	})
	n.runs(items)

	// A rollout of all members moves nothing.
	before := n.where()
	for _, id := range ids {
		n.members[id].signal(syscall.SIGTERM)
		if code, _ := n.members[id].ends(workLimit); code != 0 {
			t.Errorf("%s ended with code %d", id, code)
		}
		n.member(id, flags...)
		testkit.Await(t, workLimit, id+" runs its items again", func() string {
			if got := n.of(id); len(got) != nightItems/5 {
				return fmt.Sprintf("%d run", len(got))
			}
			return n.now().unlike(5, nightItems)
		})
	}
	for item, member := range n.where() {
		if before[item] != member {
			t.Errorf("%s was at %s, and is at %s", item, before[item], member)
		}
	}
	n.runs(items)
	n.until(all, "status")

	// An item's work fails wherever it runs.
	n.types(0, "work", "add", "invoices", "--payload", "broken")
	n.until("quarantined", "items", "invoices")
	n.types(1, "status", "--check")
	n.types(0, "explain", "invoices")
	n.types(0, "events", "invoices")
	n.types(0, "work", "add", "invoices", "--payload", "mended")
	n.types(0, "restart", "invoices")
	n.runs(append([]string{"invoices"}, items...))
	n.until(fmt.Sprint(nightItems+1, " running"), "status")
	n.types(0, "status", "--check")
	if nightItems == 100 {
		n.documented()
	}
}
