package onconsul_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/internal/asynclog"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// Who may join and not lead would wait for ever, and nobody would know why.
func TestWhyTheLeadershipCannotBeTakenIsLoggedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		c := s.over(transport.Func(func(r *http.Request) (*http.Response, error) {
			if text := transport.Txn(r); strings.Contains(text, `state/leader"`) &&
				strings.Contains(text, `"lock"`) {
				return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{},
					Request: r, Body: io.NopCloser(strings.NewReader("Permission denied"))}, nil
			}
			return s.consul.RoundTripper().RoundTrip(r)
		}))
		defer c.Close()
		var text bytes.Buffer
		log := asynclog.Wrap(slog.New(slog.NewTextHandler(&text, nil)))
		e := nominated(t, c, election.Config{Election: contested, Name: "a", Logger: log})
		time.Sleep(time.Minute)
		e.Resign()
		<-e.Done()
		asynclog.Flush(log, time.Second)
		if n := strings.Count(text.String(), "operation=take"); n != 1 ||
			!strings.Contains(text.String(), "Permission denied") {
			t.Errorf("%d lines say why it does not lead:\n%s", n, text.String())
		}
	})
}
