package metrics_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
)

var update = flag.Bool("update", false, "write the table of docs/metrics.md anew")

const (
	doc        = "../../docs/metrics.md"
	tableBegin = "<!-- the table: go test ./actors/metrics -update -->\n"
	tableEnd   = "<!-- its end -->\n"
)

// table is what docs/metrics.md says of each metric.
func table(families map[string]*dto.MetricFamily) string {
	var b strings.Builder
	b.WriteString("| metric | kind | labels | what it is |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(families)) {
		f := families[name]
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			if n := l.GetName(); n != "service" && n != "member" {
				labels = append(labels, "`"+n+"`")
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, strings.ToLower(f.GetType().String()),
			strings.Join(labels, " "), f.GetHelp())
	}
	return b.String()
}

func TestTheDocumentNamesEveryMetricAndNoOther(t *testing.T) {
	var families map[string]*dto.MetricFamily
	bubble(t, func(w *world) {
		w.AddWork("w1", "w2", "w3", "w4", "loop")
		w.start("a")
		w.await(5, "coordd_items", "state=owned")
		w.start("b").Lose()
		time.Sleep(time.Minute)
		families = w.families()
	})
	b, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(b), tableBegin)
	was, after, end := strings.Cut(rest, tableEnd)
	if !found || !end {
		t.Fatalf("%s has no table between %q and %q", doc, tableBegin, tableEnd)
	}
	now := table(families)
	if *update {
		text := []byte(before + tableBegin + now + tableEnd + after)
		if err := os.WriteFile(doc, text, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if was != now {
		t.Errorf("the table of %s is not that of the code: go test ./actors/metrics -update", doc)
	}
	lint := promlint.NewWithMetricFamilies(slices.Collect(maps.Values(families)))
	if problems, err := lint.Lint(); err != nil || len(problems) > 0 {
		t.Errorf("names or help against Prometheus' conventions (%v): %v", err, problems)
	}
	known := map[string]bool{}
	for name := range families {
		if !strings.HasPrefix(name, "coordd_") {
			t.Errorf("%s has no prefix of ours", name)
		}
		for _, suffix := range []string{"", "_bucket", "_count", "_sum"} {
			known[name+suffix] = true
		}
	}
	files, err := os.ReadDir("../../docs/prometheus")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{doc: before + after}
	for _, f := range files {
		text, err := os.ReadFile("../../docs/prometheus/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		texts[f.Name()] = string(text)
	}
	for where, text := range texts {
		for _, name := range regexp.MustCompile(`\bcoordd_[a-z_]+`).FindAllString(text, -1) {
			if !known[name] {
				t.Errorf("%s names %s, which there is not", where, name)
			}
		}
	}
}
