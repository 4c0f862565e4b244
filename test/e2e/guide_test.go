//go:build linux && coordd_long

package e2e_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/realconsul"
)

var updateGuide = flag.Bool("update-guide", false, "write the consoles of docs/operators.md anew")

const guideFile = "../../docs/operators.md"

var (
	anAddress = regexp.MustCompile(`127\.0\.0\.1:\d+|\bn\d\.example\b`)
	aRemark   = regexp.MustCompile(`(?m)^(\$ .*?)\s+# .*$`)
	fewNames  = regexp.MustCompile(`(device_group_\d+, )+…`)
)

// sameConsole is a console without what differs from one day to the next.
func sameConsole(text string) string {
	text = aRemark.ReplaceAllString(text, "$1")
	text = fewNames.ReplaceAllString(text, "NAMES")
	return sameNight(anAddress.ReplaceAllString(text, "ADDRESS"))
}

// shows holds the block of docs/operators.md that begins with a line to what was printed.
func (s *service) shows(first, got string) {
	s.t.Helper()
	got = strings.ReplaceAll(got, s.name, "demo")
	text, err := os.ReadFile(guideFile)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, fence := range []string{"```\n", "```console\n"} {
		before, rest, ok := strings.Cut(string(text), "\n"+fence+first)
		if !ok {
			continue
		}
		block, after, _ := strings.Cut(first+rest, "```\n")
		switch {
		case *updateGuide:
			err := os.WriteFile(guideFile, []byte(before+"\n"+fence+got+"```\n"+after), 0o644)
			if err != nil {
				s.t.Fatal(err)
			}
		case sameConsole(block) != sameConsole(got):
			s.t.Errorf("%s shows\n%s\nand it is\n%s\n(go test -tags coordd_long ./test/e2e -run Guide -update-guide)",
				guideFile, block, got)
		}
		return
	}
	s.t.Errorf("%s has no console that begins with %q", guideFile, first)
}

// typed is a command as the guide shows it, and what it prints.
func (s *service) typed(code int, args ...string) string {
	s.t.Helper()
	stdout, stderr, got := once(s.t, append(args, "--service", s.name, "--consul", s.consul)...)
	if got != code {
		s.t.Fatalf("coordd %s: exit code %d, not %d: %s%s", strings.Join(args, " "), got, code,
			stdout, stderr)
	}
	return fmt.Sprintf("$ coordd %s\n%s%s", strings.Join(args, " "), stdout, stderr)
}

// What the guide shows of a service whose members are all there.
func TestTheConsolesOfTheGuide(t *testing.T) {
	s := newService(t, realconsul.Shared(t).Addr())
	file := filepath.Join(workDir(t), "items.txt")
	for _, id := range []string{"n1", "n2", "n3"} {
		s.start(id, "--address", id+".example", "--leader-soak", "1s")
		testkit.Await(t, startLimit, "a leader", func() string { // n1 leads
			return s.now().unlike(len(s.members), 0)
		})
	}
	s.seen()
	add := []string{"work", "add", "extra_1"}
	for i := range 30 {
		add = append(add, fmt.Sprintf("device_group_%04d", i+1))
	}
	s.do(add...)
	s.do("work", "add", "extra_1", "--weight", "3")
	settled := func(wanted string) {
		t.Helper()
		testkit.Await(t, workLimit, wanted, func() string {
			plan := s.do("plan") // first: what ran before the last move may not run after it
			if status, _ := s.ask("status"); !strings.Contains(status, wanted) ||
				!strings.Contains(plan, "moves      none") {
				return testkit.Instead(status + plan)
			}
			return ""
		})
	}
	settled("31 items: 31 running")
	lines := regexp.MustCompile(`(?m)^{"id":"device_group_0008".*\n`).ReplaceAllString(
		s.do("work", "export"), "")
	lines = strings.Replace(lines, `"extra_1","weight":3`, `"extra_1","weight":5`, 1) + "extra_2\n"
	must(t, os.WriteFile(file, []byte(lines), 0o600))
	console := "$ coordd work export > items.jsonl\n" + s.typed(0, "work", "sync", file,
		"--dry-run") + "$ coordd work sync items.jsonl\n"
	s.shows("$ coordd work export > items.jsonl", strings.ReplaceAll(console, file, "items.jsonl"))
	s.do("work", "rm", "extra_1")
	settled("30 items: 30 running")
	_, status, _ := strings.Cut(s.typed(0, "status"), "\n")
	s.shows("service  demo\nleader   n1 (epoch 1", status)
	s.shows("$ coordd plan --drain n2", s.typed(0, "plan", "--drain", "n2"))
}

// What the guide shows of a member that was lost.
func TestTheConsolesOfTheGuideAboutALoss(t *testing.T) {
	t.Parallel()
	s := newService(t, realconsul.Shared(t).Addr())
	s.exec = "" // nobody speaks for it
	s.start("n2", "--lease", "3s")
	testkit.Await(t, startLimit, "n2 leads", func() string { return s.now().unlike(1, 0) })
	lost := s.start("n4", "--lease", "3s")
	testkit.Await(t, startLimit, "two members", func() string { return s.now().unlike(2, 0) })
	s.seen()
	add := []string{"work", "add"}
	for i := range 34 {
		add = append(add, fmt.Sprintf("device_group_%04d", i+1))
	}
	s.do(add...)
	testkit.Await(t, workLimit, "all run", func() string { return s.now().unlike(2, 34) })
	its := regexp.MustCompile(`device_group_\d+`).FindString(s.do("items", "--member", "n4"))
	lost.Kill()
	testkit.Await(t, workLimit, "n2 has all", func() string { return s.now().unlike(1, 34) })
	s.shows("$ coordd events device_group_0", s.typed(0, "events", its)+s.typed(0, "events", "n4"))
}

// What the guide shows of work that loops.
func TestTheConsolesOfTheGuideAboutALoop(t *testing.T) {
	t.Parallel()
	s := newService(t, realconsul.Shared(t).Addr())
	s.exec = `[ "$COORDD_ITEM" = b ] && exit 3; exec sleep 1000`
	s.start("n1", "--address", "n1.example")
	testkit.Await(t, startLimit, "n1 leads", func() string { return s.now().unlike(1, 0) })
	s.do("work", "add", "a", "b", "c")
	console := ""
	testkit.Await(t, workLimit, "b rests between two starts", func() string {
		if status, code := s.ask("status"); code != 1 ||
			!strings.Contains(status, "3 items: 2 running, 1 crash-looping") {
			return testkit.Instead(status)
		}
		console = s.typed(1, "status") + s.typed(0, "explain", "b")
		if !strings.Contains(console, "\nstarts") || !strings.Contains(console, "1 crash-looping") {
			return testkit.Instead(console)
		}
		return ""
	})
	s.shows("$ coordd status", console)
}

func sameNight(text string) string {
	for _, r := range []struct {
		what *regexp.Regexp
		by   string
	}{{aVersion, "VERSION"}, {aDay, "DAY"}, {regexp.MustCompile(`\d\d:\d\d:\d\d(\.\d+)?`), "TIME"},
		{aDuration, "FOR"}, {aMember, "MEMBER"}, {aNumber, "${1}0"}, {aSpace, " "},
		{regexp.MustCompile(`(0 items left at MEMBER\n)+`), ""}} { // as often as there was time for
		text = r.what.ReplaceAllString(text, r.by)
	}
	return text
}

// ask runs a command of the operators' that may end with 1, and returns what it prints.
func (s *service) ask(args ...string) (stdout string, code int) {
	s.t.Helper()
	stdout, stderr, code := once(s.t, append(args, "--service", s.name, "--consul", s.consul)...)
	if code > 1 || stderr != "" {
		s.t.Fatalf("coordd %s: exit code %d: %s", strings.Join(args, " "), code, stderr)
	}
	return stdout, code
}
