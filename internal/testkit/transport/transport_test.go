package transport_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/coordd/coordd/internal/testkit/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server notes what arrives, and answers 204.
type server struct {
	begin   time.Time
	mu      sync.Mutex
	arrived []string
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrived = append(s.arrived, fmt.Sprintf("%s after %v", body, time.Since(s.begin)))
	return transport.Answer(r, http.StatusNoContent, "done"), err
}

// send sends a transaction that its sender gives up on after 10 s, and says what comes back and
// when.
func send(t *testing.T, to http.RoundTripper, text string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://consul.test/v1/txn",
		strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	resp, err := to.RoundTrip(r)
	if err != nil {
		return fmt.Sprintf("%v after %v", err, time.Since(begin))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %s after %v", resp.StatusCode, body, time.Since(begin))
}

func TestEachWayGoesWrongAsItSays(t *testing.T) {
	const gaveUp, reset = "context deadline exceeded after 10s", "connection reset by peer after 0s"
	for name, c := range map[string]struct {
		way    func(http.RoundTripper) http.RoundTripper
		back   string
		arrive string
	}{
		"fail": {func(http.RoundTripper) http.RoundTripper {
			return transport.Fail(errors.New("refused"))
		}, "refused after 0s", "[]"},
		"always": {func(http.RoundTripper) http.RoundTripper {
			return transport.Always(http.StatusTeapot, "tea")
		}, "418 tea after 0s", "[]"},
		"hang": {func(http.RoundTripper) http.RoundTripper {
			return transport.Func(transport.Hang)
		}, gaveUp, "[]"},
		"lose": {func(to http.RoundTripper) http.RoundTripper { return transport.Lose(to) }, reset,
			"[text after 0s]"},
		"mute": {func(to http.RoundTripper) http.RoundTripper { return transport.Mute(to) }, gaveUp,
			"[text after 0s]"},
		"late": {func(to http.RoundTripper) http.RoundTripper {
			return transport.Late(to, time.Minute)
		}, reset, "[text after 1m0s]"},
		"slow": {func(to http.RoundTripper) http.RoundTripper {
			return transport.Slow(to, func() time.Duration { return time.Second })
		}, "204 done after 1s", "[text after 1s]"},
		"too slow": {func(to http.RoundTripper) http.RoundTripper {
			return transport.Slow(to, func() time.Duration { return time.Minute })
		}, gaveUp, "[]"},
		"twice": {func(to http.RoundTripper) http.RoundTripper {
			return transport.Twice(to, time.Minute)
		}, "204 done after 0s", "[text after 0s text after 1m0s]"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{begin: time.Now()}
				if got := send(t, c.way(s), "text"); got != c.back {
					t.Errorf("its sender sees %q, not %q", got, c.back)
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if got := fmt.Sprint(s.arrived); got != c.arrive {
					t.Errorf("there arrived %s, not %s", got, c.arrive)
				}
			})
		})
	}
}

func TestACopyOutlivesItsSenderAndCanBeDeliveredAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, text := &server{begin: time.Now()}, ""
		keeps := &transport.Recorder{To: s, Keep: func(r *http.Request) bool {
			passes := transport.Text(r)
			text += passes
			return passes != "other"
		}}
		send(t, keeps, "text")
		send(t, keeps, "other")
		s.arrived = s.arrived[:1]
		for range 2 { // its sender's context has ended
			if code := transport.Again(s, keeps.Copies()[0]); code != http.StatusNoContent {
				t.Errorf("it is answered %d", code)
			}
		}
		if got := fmt.Sprint(text,
			s.arrived); got != "textother[text after 0s text after 0s text after 0s]" {
			t.Error(got)
		}
	})
}

func TestAWireIsCutFrozenAndLedAnotherWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{begin: time.Now()}
		w := transport.NewWire(s)
		count := &transport.Recorder{To: w}
		expect := func(text, want string) {
			t.Helper()
			if got := send(t, count, text); got != want {
				t.Errorf("%s: %s, not %s", text, got, want)
			}
		}
		w.Cut(errors.New("cut"))
		expect("one", "cut after 0s")
		w.Cut(nil)
		w.Next(2, w.Lose)
		expect("two", "204 done after 0s")
		expect("three", "connection reset by peer after 0s")
		w.Freeze()
		expect("four", "context deadline exceeded after 10s")
		time.AfterFunc(time.Second, w.Thaw)
		expect("five", "204 done after 1s")
		w.Next(1, func(r *http.Request) (*http.Response, error) {
			w.Cut(errors.New("cut under way"))
			return s.RoundTrip(r)
		})
		expect("six", "cut under way after 0s")
		w.Cut(nil)
		w.Via(transport.Always(http.StatusTeapot, "tea"))
		expect("seven", "418 tea after 0s")
		if got := fmt.Sprint(s.arrived); got != "[two after 0s three after 0s five after 11s "+
			"six after 11s]" {
			t.Error(got)
		}
		if n := w.Requests()["PUT /v1/txn"]; n != 7 || len(count.Copies()) != 7 ||
			len(w.Requests()) != 0 {
			t.Errorf("%d and %d requests", n, len(count.Copies()))
		}
	})
}
