package realprometheus

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// Dashboard is what tests look at of Grafana's format.
type Dashboard struct {
	Title  string
	UID    string
	Panels []struct {
		ID      int
		Type    string
		Title   string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ Expr string }
	}
	Annotations struct{ List []struct{ Expr string } }
}

// ReadDashboard reads a dashboard's file. The variables in its queries have values: each service
// and member that the selector matches, and rates over a minute.
func ReadDashboard(t testing.TB, path, service string) (d Dashboard) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("$__rate_interval", "1m", "$__interval", "1m", "$service", service,
		"$member", ".+").Replace(string(b))
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	return d
}
