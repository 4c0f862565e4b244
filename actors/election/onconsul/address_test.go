package onconsul_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/internal/asynclog"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// Whether Consul denies something or does not answer: the log says which one.
func TestTheLogNamesTheConsulThatIsAsked(t *testing.T) {
	for name, way := range map[string]transport.Func{
		"denies all":      transport.Always(http.StatusForbidden, "Permission denied"),
		"answers nothing": transport.Hang,
		"has no process":  transport.Fail(errRefused),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, _ *embedded) {
				var text bytes.Buffer
				log := asynclog.Wrap(slog.New(slog.NewTextHandler(&text, nil)))
				c, err := onconsul.Connect(onconsul.Config{Client: devconsul.ClientOver(way),
					Consul: "agent.example:8501", Logger: log})
				must(t, err)
				e := nominated(t, c, election.Config{Election: contested, Name: "a", Logger: log})
				time.Sleep(time.Minute)
				e.Resign()
				<-e.Done()
				c.Close()
				asynclog.Flush(log, time.Second)
				for line := range strings.Lines(text.String()) {
					if strings.Contains(line, "addr=") &&
						!strings.Contains(line, "addr=agent.example:8501") {
						t.Errorf("another one is named: %s", line)
					}
				}
				if !strings.Contains(text.String(), "addr=") {
					t.Errorf("none is named:\n%s", text.String())
				}
			})
		})
	}
}
