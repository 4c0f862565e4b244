//go:build unix && coordd_long

package realprometheus_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/coordd/coordd/test/e2e/realprometheus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const files = "../../../docs/prometheus"

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// alerts are the names of all alerts, in the order of the file.
func alerts(t *testing.T) (names []string) {
	t.Helper()
	for _, found := range regexp.MustCompile(`(?m)^ +- alert: (\w+)$`).FindAllStringSubmatch(
		read(t, filepath.Join(files, "alerts.yml")), -1) {
		names = append(names, found[1])
	}
	if len(names) < 10 {
		t.Fatalf("only %d alerts were found", len(names))
	}
	return names
}

func TestTheAlertRulesAreSound(t *testing.T) {
	if out, err := realprometheus.Promtool(t, files, "check", "rules", "--lint-fatal",
		"alerts.yml"); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

func TestEachAlertFiresAndClearsOnWrittenSeries(t *testing.T) {
	if out, err := realprometheus.Promtool(t, files, "test", "rules",
		"alerts_test.yml"); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
	text := read(t, filepath.Join(files, "alerts_test.yml"))
	for _, name := range alerts(t) {
		_, its, found := strings.Cut(text, "- name: "+name+"\n")
		its, _, _ = strings.Cut(its, "- name: ")
		if !found || strings.Count(its, "exp_samples: []") != 2 || strings.Count(its,
			"value: 1\n") != 1 {
			t.Errorf("alerts_test.yml does not see %s quiet, firing and quiet again", name)
		}
	}
}

// A promtool that finds nothing wrong in anything would be no test.
func TestAWrongRuleIsSeen(t *testing.T) {
	dir := t.TempDir()
	wrong := strings.Replace(read(t, filepath.Join(files, "alerts.yml")), "for: 1m", "for: 10m", 1)
	for name, text := range map[string]string{"alerts.yml": wrong,
		"alerts_test.yml": read(t, filepath.Join(files, "alerts_test.yml"))} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := realprometheus.Promtool(t, dir, "test", "rules",
		"alerts_test.yml"); err == nil || !strings.Contains(out, alerts(t)[0]) {
		t.Errorf("an alert that fires too late passes: %v\n%s", err, out)
	}
}

func TestEachAlertHasAnEntryInTheRunbookAndNoOtherHas(t *testing.T) {
	names := alerts(t)
	var entries []string
	for _, found := range regexp.MustCompile(`(?m)^### (Coordd\w+)$`).FindAllStringSubmatch(
		read(t, "../../../docs/metrics.md"), -1) {
		entries = append(entries, found[1])
	}
	if !slices.Equal(names, entries) {
		t.Errorf("the alerts are %v, the entries of docs/metrics.md %v", names, entries)
	}
	entries = nil
	for _, found := range regexp.MustCompile(`(?m)^\| \[(Coordd\w+)\]\(metrics\.md#(\w+)\) `).
		FindAllStringSubmatch(read(t, "../../../docs/operations.md"), -1) {
		entries = append(entries, found[1])
		if found[2] != strings.ToLower(found[1]) {
			t.Errorf("the row of %s leads to %s", found[1], found[2])
		}
	}
	if !slices.Equal(names, entries) {
		t.Errorf("the alerts are %v, the rows of docs/operations.md %v", names, entries)
	}
	rules := read(t, filepath.Join(files, "alerts.yml"))
	for _, name := range names {
		if !strings.Contains(rules, "runbook_url: https://github.com/coordd/coordd/blob/main/"+
			"docs/metrics.md#"+strings.ToLower(name)+"\n") {
			t.Errorf("%s does not say where its entry is", name)
		}
	}
}

func TestTheDashboardsQueriesAreSound(t *testing.T) {
	d := realprometheus.ReadDashboard(t, filepath.Join(files, "dashboard.json"), ".+")
	rules := "groups:\n  - name: dashboard\n    rules:\n"
	n, ids := 0, map[int]bool{}
	add := func(expr string) {
		if strings.Contains(expr, "$") {
			t.Errorf("a variable that the dashboard has not: %s", expr)
		}
		n++
		rules += "      - record: query:" + strconv.Itoa(n) + "\n        expr: " +
			strconv.Quote(expr) + "\n"
	}
	for i, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("two panels have the id %d", p.ID)
		}
		ids[p.ID] = true
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q asks nothing", p.Title)
		}
		for _, target := range p.Targets {
			add(target.Expr)
		}
		for _, o := range d.Panels[:i] {
			a, b := p.GridPos, o.GridPos
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("panel %q lies on %q", p.Title, o.Title)
			}
		}
	}
	for _, a := range d.Annotations.List {
		add(a.Expr)
	}
	if d.Title == "" || d.UID == "" || n < 20 {
		t.Errorf("%q has %d queries", d.Title, n)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "rules.yml"), []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := realprometheus.Promtool(t, dir, "check", "rules", "rules.yml"); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}
