package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/actorstest"
	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/internal/testkit"
)

// readiness is what a member's handler answers.
type readiness struct {
	*testing.T
	h http.Handler
}

func (r readiness) expect(when, query string, code int, texts ...string) {
	r.Helper()
	w := testkit.Send(r.h, "GET", "/readyz"+query)
	if w.Code != code {
		r.Errorf("%s: %d, want %d: %s", when, w.Code, code, w.Body)
	}
	for _, text := range texts {
		if !strings.Contains(w.Body.String(), text) {
			r.Errorf("%s: %q is not in %q", when, text, w.Body)
		}
	}
}

func TestAMemberIsNotReadyWhileItsWorkFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := actorstest.New(t)
		var broken atomic.Bool
		broken.Store(true)
		end := make(chan struct{})
		n1 := cluster.Start("n1", func(ctx context.Context, item actors.Item) error {
			if broken.Load() && item.ID == "bad" {
				return errors.New("cannot reach it")
			}
			if item.ID == "deaf" {
				<-end
			}
			<-ctx.Done()
			return nil
		})
		r := readiness{t, New(n1.Coordinator(), Options{})}
		cluster.AddWork("good")
		time.Sleep(10 * time.Second)
		r.expect("its work runs", "", http.StatusOK, "ok")
		r.expect("its work runs", "?verbose", http.StatusOK, "[+]lease ok", "[+]assignments ok",
			"[+]work ok")
		cluster.AddWork("bad")
		time.Sleep(10 * time.Second)
		r.expect("its work fails", "", http.StatusServiceUnavailable,
			"[-]work failed: work of n1 ends again and again: 1 (bad)")
		r.expect("its work does not count", "?exclude=work", http.StatusOK, "ok")
		broken.Store(false)
		time.Sleep(time.Minute)
		r.expect("its work runs again", "", http.StatusOK, "ok")
		cluster.AddWork("deaf")
		time.Sleep(10 * time.Second)
		if err := cluster.Operator().RemoveWork(t.Context(), "deaf"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		r.expect("its work does not stop", "", http.StatusServiceUnavailable,
			"[-]work failed: work of n1 ignores its order to stop: 1 (deaf)")
		close(end)
		time.Sleep(10 * time.Second)
		r.expect("its work has stopped", "", http.StatusOK, "ok")
		n1.CutOff()
		time.Sleep(20 * time.Second)
		r.expect("it is cut off", "", http.StatusServiceUnavailable, "[-]lease failed: the lease")
		n1.Mend()
	})
}

func TestAMemberIsNotReadyBeforeItRunsNorWhileItsItemsWaitForItsFormerProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := actorstest.New(t)
		c, err := actors.New(actors.Config{Service: actorstest.Service, ID: "n0",
			Client: cluster.Client(), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		readiness{t, New(c, Options{})}.expect("it does not run", "",
			http.StatusServiceUnavailable, "[-]lease failed: n0 has no session",
			"[-]assignments failed: n0 has not read")
		cluster.AddWork("a")
		n1 := cluster.Start("n1", nil)
		time.Sleep(10 * time.Second)
		n1.Lose()
		again := cluster.Start("n1", nil)
		r := readiness{t, New(again.Coordinator(), Options{})}
		waited := false
		for range 60 {
			time.Sleep(time.Second)
			own := again.Coordinator().OwnItems()
			if own.States[operator.ItemWaiting] > 0 {
				waited = true
				r.expect("its item waits", "", http.StatusServiceUnavailable,
					"[-]assignments failed: items of n1 wait for its former process: 1, for")
			}
		}
		if !waited {
			t.Error("its item never waited")
		}
		r.expect("its item runs", "", http.StatusOK, "ok")
	})
}

// A member goes through all of its items to say what they do, and anybody may ask, also without the
// token.
func TestWhetherAMemberIsReadyIsFoundOutOnceASecondHoweverManyAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := actorstest.New(t)
		n1 := cluster.Start("n1", nil).Coordinator()
		cluster.AddWork("a")
		time.Sleep(10 * time.Second)
		s := showing(nil, n1)
		looks := 0
		read := s.own.read
		s.own.read = func(ctx context.Context) *view {
			looks++
			return read(ctx)
		}
		for range 10 * 100 {
			if w := ask(s, "/readyz"); w.Code != http.StatusOK {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if looks > 11 {
			t.Errorf("in 10 s it was looked at %d times", looks)
		}
	})
}
