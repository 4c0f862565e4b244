package protocol_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// What fails in a process that was suspended is not laid to Consul: it says that it was, once.
func TestAProcessThatWasSuspendedSaysSoAndBlamesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		consul := devconsul.New(devconsul.Config{Logger: slog.New(slog.DiscardHandler)})
		defer consul.Close()
		var log bytes.Buffer
		s, err := protocol.New("demo", store.Config{Client: consul.Client(),
			Logger: slog.New(slog.NewTextHandler(&log, nil))})
		must(t, err)
		fails := func() { s.Failed("session", fmt.Errorf("x: %w", store.ErrUnreachable), 0) }
		said := func(step, want string) {
			t.Helper()
			text := log.String()
			log.Reset()
			if want == "" && text != "" || strings.Count(text, "\n") > 1 ||
				!strings.Contains(text, want) {
				t.Errorf("%s: the log says %q, want %q", step, text, want)
			}
		}
		time.Sleep(time.Minute)
		if s.Stood() != 0 {
			t.Error("nobody ticks, and it says that the process stood still")
		}
		for range 3 {
			s.Tick(true)
			time.Sleep(time.Second)
		}
		said("ticks in time", "")
		time.Sleep(15 * time.Second)
		fails()
		said("suspended", "msg=was-suspended for=16s")
		s.Tick(true)
		time.Sleep(2 * time.Second)
		s.Tick(true)
		fails()
		said("just after", "")
		for range 4 {
			time.Sleep(time.Second)
			s.Tick(true)
		}
		fails()
		said("later", "msg=consul-unreachable")
		s.Tick(false)
		time.Sleep(time.Hour)
		s.Stood()
		said("when it has stopped", "")
	})
}
