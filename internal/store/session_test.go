package store_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/store"
)

func TestATTLOutOfRangeIsRefusedBeforeSendingWithTheRange(t *testing.T) {
	s := over(t, tripper(func(*http.Request) (*http.Response, error) {
		t.Error("sent")
		return nil, io.EOF
	}))
	for _, ttl := range []time.Duration{0, -1, 1999 * time.Millisecond, 86401 * time.Second} {
		_, _, err := s.CreateSession(t.Context(), store.SessionOptions{TTL: ttl})
		wantKind(t, err, store.ErrInvalid, false)
		wantText(t, err, "2s", "86400s")
	}
	for _, delay := range []time.Duration{-1, 61 * time.Second} {
		_, _, err := s.CreateSession(t.Context(), store.SessionOptions{TTL: store.DefaultTTL,
			LockDelay: delay})
		wantKind(t, err, store.ErrInvalid, false)
		wantText(t, err, "1m0s")
	}
}

func TestASessionHasNoChecksDeletesItsKeysAndKeepsItsLockDelay(t *testing.T) {
	var body string
	s := over(t, tripper(func(r *http.Request) (*http.Response, error) {
		data, _ := io.ReadAll(r.Body)
		body = string(data)
		return answer(r, 200, `{"ID":"id"}`), nil
	}))
	_, _, err := s.CreateSession(t.Context(), store.SessionOptions{Name: "m1",
		TTL: 15 * time.Second})
	must(t, err)
	for _, part := range []string{`"NodeChecks":[]`, `"Behavior":"delete"`, `"TTL":"15s"`,
		`"LockDelay":"1000ms"`, `"Name":"m1"`} {
		if !strings.Contains(body, part) {
			t.Errorf("the request %s lacks %s", body, part)
		}
	}
}

func TestSentIsTheMomentBeforeSending(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, _ store.Store) {
		slow := tripper(func(r *http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			resp, err := consul.RoundTripper().RoundTrip(r)
			time.Sleep(time.Second)
			return resp, err
		})
		s := over(t, slow)
		before := time.Now()
		id, sent, err := s.CreateSession(t.Context(), store.SessionOptions{TTL: store.DefaultTTL})
		must(t, err)
		if !sent.Equal(before) {
			t.Errorf("create: sent %v, want %v", sent, before)
		}
		before = time.Now()
		sent, err = s.RenewSession(t.Context(), id, 0)
		must(t, err)
		if !sent.Equal(before) {
			t.Errorf("renew: sent %v, want %v", sent, before)
		}
	})
}

func TestRenewingASessionThatIsGoneSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T, _ *devconsul.Server, s store.Store) {
		id := session(t, s)
		must(t, s.DestroySession(t.Context(), id))
		_, err := s.RenewSession(t.Context(), id, 0)
		wantKind(t, err, store.ErrSessionGone, false)
		wantText(t, err, "session renew "+id, "open a new session")
		must(t, s.DestroySession(t.Context(), id)) // destroying a dead one is no error
	})
}

func TestAServerThatStillReplaysItsLogNeitherEndsNorRenewsASession(t *testing.T) {
	for name, ended := range map[string]bool{"it lives": false, "it has ended": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, consul *devconsul.Server, s store.Store) {
				past := consul.Snapshot()
				id := session(t, s)
				if ended {
					past = consul.Snapshot()
					must(t, s.DestroySession(t.Context(), id))
				}
				consul.ElectionStart()
				consul.ElectionEndBehind(past)
				_, err := s.RenewSession(t.Context(), id, 0)
				wantKind(t, err, store.ErrUnreachable, true)
				consul.ElectionEnd()
				if _, err = s.RenewSession(t.Context(), id, 0); ended {
					wantKind(t, err, store.ErrSessionGone, false)
				} else {
					must(t, err)
				}
			})
		})
	}
}

func TestAServerMayHaveCaughtUpBetweenARenewalAndItsConfirmation(t *testing.T) {
	renewed := func(answers ...tripper) error {
		_, err := over(t, tripper(func(r *http.Request) (*http.Response, error) {
			answer := answers[0]
			answers = answers[1:]
			return answer(r)
		})).RenewSession(t.Context(), "id", 0)
		return err
	}
	err := renewed(always(404, "Session id 'id' not found"),
		always(200, `[{"ID":"id"}]`, "X-Consul-Index", "3"))
	wantKind(t, err, store.ErrUnreachable, true)
	wantText(t, err, "replays its log")
	err = renewed(always(200, `[{"ID":"id"}]`), always(200, "[]", "X-Consul-Index", "3"))
	wantKind(t, err, store.ErrSessionGone, false)
}

func TestOnlyConsulCanSayThatASessionIsGone(t *testing.T) {
	for name, rt := range map[string]tripper{
		"an election":       always(500, "No cluster leader"),
		"an empty list":     always(200, "[]"),
		"null":              always(200, "null"),
		"another session":   always(200, `[{"ID":"other"}]`),
		"a page of a proxy": always(404, "<html>404</html>"),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := over(t, rt).RenewSession(t.Context(), "id", 0)
			wantKind(t, err, store.ErrUnreachable, true)
		})
	}
	_, err := over(t, always(403, "Permission denied")).RenewSession(t.Context(), "id", 0)
	wantKind(t, err, store.ErrDenied, false)
	_, exists, err := over(t, always(200, "null", "X-Consul-Index", "3")).SessionInfo(t.Context(),
		"id")
	wantKind(t, err, store.ErrUnreachable, true)
	if exists {
		t.Error("exists with an error")
	}
}

func TestLockingWithADeadSessionSaysThatItIsGone(t *testing.T) {
	bubble(t, func(t *testing.T, _ *devconsul.Server, s store.Store) {
		id := session(t, s)
		must(t, s.DestroySession(t.Context(), id))
		_, err := s.Txn(t.Context(), store.Lock("k", nil, 0, id))
		wantKind(t, err, store.ErrSessionGone, false)
	})
	_, err := over(t, always(500, `invalid session "x"`)).Txn(t.Context(), store.Lock("k", nil, 0,
		"x"))
	wantKind(t, err, store.ErrSessionGone, false)
}

func TestSessionIDsAreChecked(t *testing.T) {
	s := over(t, tripper(func(*http.Request) (*http.Response, error) {
		t.Error("sent")
		return nil, io.EOF
	}))
	for _, id := range []string{"", "../x", "a b", "a?b"} {
		_, err := s.RenewSession(t.Context(), id, 0)
		wantKind(t, err, store.ErrInvalid, false)
		wantKind(t, s.DestroySession(t.Context(), id), store.ErrInvalid, false)
		_, _, err = s.SessionInfo(t.Context(), id)
		wantKind(t, err, store.ErrInvalid, false)
	}
}
