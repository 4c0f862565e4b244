package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	aReason  = regexp.MustCompile(`(?m)^\t(Reason\w+)\s+= "([a-z-]+)"`)
	aRefusal = regexp.MustCompile(`refuse\(http\.Status(\w+),\s+(Reason\w+),`)
	aRow     = regexp.MustCompile("(?m)^\\| ([0-9][^|]*) \\| (`[^|]*) \\|")
)

// Whoever writes a client looks up in the table what a refusal means.
func TestEveryReasonOfTheDispatcherIsInTheTableOfTheOperators(t *testing.T) {
	var code strings.Builder
	files, err := filepath.Glob("../../actors/dispatch/*.go")
	must(t, err)
	for _, name := range files {
		b, err := os.ReadFile(name)
		must(t, err)
		code.Write(b)
	}
	reasons, statuses := map[string]string{}, map[string]int{}
	for _, m := range aReason.FindAllStringSubmatch(code.String(), -1) {
		reasons[m[1]] = m[2]
	}
	for status := range 600 {
		statuses[strings.ReplaceAll(http.StatusText(status), " ", "")] = status
	}
	rows := aRow.FindAllStringSubmatch(documents(t)["docs/operators.md"], -1)
	named := func(status, reason string) bool {
		return slices.ContainsFunc(rows, func(row []string) bool {
			return strings.Contains(row[1], status) && strings.Contains(row[2], "`"+reason+"`")
		})
	}
	refusals := aRefusal.FindAllStringSubmatch(code.String(), -1)
	if len(reasons) < 10 || len(refusals) < 10 {
		t.Fatalf("%d reasons and %d refusals were found: is the code still read?", len(reasons),
			len(refusals))
	}
	for _, m := range refusals {
		if status := fmt.Sprint(statuses[m[1]]); !named(status, reasons[m[2]]) {
			t.Errorf("no row has %s with %s", status, reasons[m[2]])
		}
	}
	for _, reason := range reasons {
		if !named("", reason) {
			t.Errorf("no row has %s", reason)
		}
	}
}
