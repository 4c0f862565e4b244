//go:build linux && coordd_long

package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/proc"
	"github.com/coordd/coordd/internal/testkit"
)

// shares waits until the members' rows say that they have so many items, in order, and that all
// items are somewhere.
func (b *browser) shares(what string, items ...int) time.Duration {
	b.Helper()
	begun := time.Now()
	b.waits(what, `[...document.querySelectorAll(".member .load b")].`+
		`map(e => e.textContent).join() ===`+
		quoted(strings.ReplaceAll(strings.Trim(fmt.Sprint(items), "[]"), " ", ",")))
	return time.Since(begun)
}

// says waits for a tag beside a member's name; "" means that none of the trials is under way.
func (b *browser) says(member, state string) {
	b.Helper()
	tag := `[...document.querySelectorAll(".member[aria-label=` + member + `] .tag")].map(e =>
		e.textContent).find(t => /^(killed|ended|frozen|cut off)/.test(t)) || ""`
	b.waits(member+" is "+state, `(`+tag+`) === `+quoted(state))
}

func TestDevsPageHasButtonsThatShowATakeOver(t *testing.T) {
	t.Parallel()
	_, page, _ := launchDev(t, "--items", "30")
	b := browse(t, page)
	b.shares("three members share 30 items", 10, 10, 10)
	b.accessible()
	b.obeys("dev's buttons")
	names := b.buttons()
	for _, label := range []string{"Kill", "Freeze", "Cut off", "Drain"} {
		for _, member := range []string{"n1", "n2", "n3"} {
			if !slices.Contains(names, label+" "+member) {
				t.Errorf("no button is told as %q to a screen reader: %q", label+" "+member, names)
			}
		}
	}
	for _, trial := range []struct {
		press, state, undo string
		left               []int
	}{
		{"Kill n2", "killed", "Start again n2", []int{15, 0, 15}},
		{"Freeze n1", "frozen", "Thaw n1", []int{0, 15, 15}},
		{"Cut off n3", "cut off from Consul", "Reconnect n3", []int{15, 15, 0}},
		{"Drain n1", "", "Undrain n1", []int{0, 15, 15}},
	} {
		member := trial.press[len(trial.press)-2:]
		b.press(trial.press)
		b.says(member, trial.state)
		took := b.shares(trial.press+": its items are at the others", trial.left...)
		t.Logf("%s: its items were at the others, on the page, after %v", trial.press,
			took.Round(100*time.Millisecond))
		b.waits("nothing is green beside "+trial.press, `document.querySelector("#wrong .headline")
			.matches(".order") && !document.querySelector("#wrong .fine")`)
		n := b.text(`document.activeElement.closest(".member")?.getAttribute("aria-label")`)
		if n != member {
			t.Errorf("%s: the focus is at %s", trial.press, n)
		}
		b.accessible()
		b.obeys(trial.press)
		b.press(trial.undo)
		b.says(member, "")
		b.shares(trial.undo+": it has its share again", 10, 10, 10)
	}
}

func TestAPageOfAnotherOriginCannotPressDevsButtons(t *testing.T) {
	t.Parallel()
	_, page, _ := launchDev(t, "--members", "1", "--items", "1")
	strange := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!doctype html><link rel="icon" href="data:,">
			<form method="post" action="%sv1/members/n1/actions/kill">
			<button>Prize</button></form>`, page)
	}))
	defer strange.Close()
	b := browse(t, strange.URL)
	b.expectRefusals()
	b.text(`document.querySelector("button").click()`)
	b.waits("the press is refused", `document.body.innerText.includes("of another origin")`)
	resp, err := http.Get(page + "v1/actions")
	must(t, err)
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(body),
		`[{"member":"n1","actions":[{"name":"kill"`) {
		t.Errorf("n1 is not as it was: %v: %s", err, body)
	}
}

func TestWhatDevSuggestsToTypeRunsWork(t *testing.T) {
	t.Parallel()
	p, page, _ := launchDev(t, "--items", "12")
	b := browse(t, page)
	b.shares("three members share 12 items", 4, 4, 4)
	line := regexp.MustCompile(`(?m)^ +(\S+ run --id n4 .*)$`).FindStringSubmatch(p.stdout())
	if line == nil {
		t.Fatalf("it suggests no member: %s", p.stdout())
	}
	more := launchOther(t, "/bin/sh", nil, "-c", "exec "+line[1])
	b.shares("the fourth has its share", 3, 3, 3, 3)
	testkit.Await(t, workLimit, "its commands show that they run", func() string {
		if n := strings.Count(more.stdout(), " runs here\n"); n != 3 {
			return fmt.Sprintf("%d of them: %s", n, more.stdout())
		}
		return ""
	})
	more.signal(syscall.SIGINT)
	if code, _ := more.ends(workLimit); code != 0 {
		t.Errorf("it ended with code %d", code)
	}
}

func TestAMemberOfDevThatEndedByItselfCanBeStartedAgain(t *testing.T) {
	t.Parallel()
	p, page, _ := launchDev(t, "--members", "1", "--items", "2")
	b := browse(t, page)
	b.shares("the member has both items", 2)
	must(t, syscall.Kill(childrenOf(t, p.PID)[0], syscall.SIGKILL))
	b.says("n1", "ended")
	b.press("Start again n1")
	b.says("n1", "")
	b.waits("both items run again",
		`document.querySelector("#wrong").innerText.includes("All 2 items run.")`)
	if !strings.Contains(p.stderr(), "msg=member-ended") {
		t.Error("the log does not say that it ended")
	}
}

// However dev ends, its members end: those that run, and those that are frozen.
func TestNoMemberOfDevOutlivesIt(t *testing.T) {
	t.Parallel()
	p, page, _ := launchDev(t, "--members", "2", "--items", "2")
	b := browse(t, page)
	b.shares("two members share 2 items", 1, 1)
	members := childrenOf(t, p.PID)
	if len(members) != 2 {
		t.Fatalf("it has %d children", len(members))
	}
	b.press("Freeze n1")
	b.says("n1", "frozen")
	if !slices.ContainsFunc(members, func(pid int) bool {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		return strings.Contains(string(b), "State:\tT")
	}) {
		t.Error("no process is stopped")
	}
	b.expectRefusals()
	p.signal(syscall.SIGKILL)
	testkit.Await(t, workLimit, "its members have ended", func() string {
		for _, pid := range members {
			if s, err := proc.Read(itoa(pid)); err == nil && !s.Gone {
				return fmt.Sprintf("process %d is there: %+v", pid, s)
			}
		}
		return ""
	})
}

func childrenOf(t *testing.T, pid int) (pids []int) {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	must(t, err)
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // a thread that has ended
		}
		for _, field := range strings.Fields(string(text)) {
			var child int
			if _, err := fmt.Sscan(field, &child); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}
