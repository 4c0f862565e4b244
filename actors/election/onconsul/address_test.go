package onconsul_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
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
		"denies all":      forbids,
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
				namesTheAgent(t, text.String())
			})
		})
	}
}

// namesTheAgent tells whether a log names the agent that is asked, and no other.
func namesTheAgent(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.Contains(line, "addr=") && !strings.Contains(line, "addr=agent.example:8501") {
			t.Errorf("another one is named: %s", line)
		}
	}
	if !strings.Contains(text, "addr=") {
		t.Errorf("none is named:\n%s", text)
	}
}

func TestTheLogOfADepartureNamesTheConsulThatIsAsked(t *testing.T) {
	bubble(t, func(t *testing.T, _ *embedded) {
		var text bytes.Buffer
		log := asynclog.Wrap(slog.New(slog.NewTextHandler(&text, nil)))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := onconsul.Depart(ctx, onconsul.Config{Consul: "agent.example:8501", Logger: log,
			Client: devconsul.ClientOver(transport.Fail(errRefused))}, contested, "s")
		if err == nil {
			t.Error("it has departed from nowhere")
		}
		asynclog.Flush(log, time.Second)
		namesTheAgent(t, text.String())
	})
}

// unread is the handler of a log that nobody reads.
type unread struct{ shut chan struct{} }

func (u unread) Enabled(context.Context, slog.Level) bool { return true }
func (u unread) Handle(context.Context, slog.Record) error {
	<-u.shut
	return nil
}
func (u unread) WithAttrs([]slog.Attr) slog.Handler { return u }
func (u unread) WithGroup(string) slog.Handler      { return u }

// The first request fails, of which there is something to be logged.
func TestADepartureWhoseLogNobodyReadsIsDone(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		c := s.over(s.consul.RoundTripper())
		a := s.joins(c, "a", 0)
		u := unread{make(chan struct{})}
		open := sync.OnceFunc(func() { close(u.shut) })
		defer open()
		defer time.AfterFunc(time.Hour, open).Stop()
		var failed atomic.Bool
		first := func(*http.Request) bool { return failed.CompareAndSwap(false, true) }
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		begin := time.Now()
		led, err := onconsul.Depart(ctx, onconsul.Config{Logger: slog.New(u),
			Client: devconsul.ClientOver(transport.When(s.consul.RoundTripper(), first,
				transport.Fail(errRefused)))}, contested, c.Contact().Get().Session)
		if took := time.Since(begin); !led || err != nil || took > 2*time.Second || !failed.Load() {
			t.Errorf("the departure: led %v, %v, after %v", led, err, took)
		}
		a.Resign()
		<-a.Done()
		c.Close()
	})
}
