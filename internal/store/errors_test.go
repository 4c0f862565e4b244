package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/internal/store"
)

// calls are all ways to talk to Consul. Whatever happens to them, the errors
// are of the same kinds.
func calls(s store.Store) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"get": func(ctx context.Context) error {
			_, _, _, err := s.Get(ctx, "k", store.Default)
			return err
		},
		"list": func(ctx context.Context) error {
			_, _, err := s.List(ctx, "k/", store.Default)
			return err
		},
		"list keys": func(ctx context.Context) error {
			_, _, err := s.ListKeys(ctx, "k/", "/")
			return err
		},
		"txn": func(ctx context.Context) error {
			_, err := s.Txn(ctx, store.Set("k", nil, 0), store.Delete("l"))
			return err
		},
		"read txn": func(ctx context.Context) error {
			_, err := s.Txn(ctx, store.Get("k"))
			return err
		},
		"session create": func(ctx context.Context) error {
			_, _, err := s.CreateSession(ctx, store.SessionOptions{TTL: store.DefaultTTL})
			return err
		},
		"session renew": func(ctx context.Context) error {
			_, err := s.RenewSession(ctx, "id", 0)
			return err
		},
		"session destroy": func(ctx context.Context) error { return s.DestroySession(ctx, "id") },
		"session info": func(ctx context.Context) error {
			_, _, err := s.SessionInfo(ctx, "id")
			return err
		},
		"watch": func(ctx context.Context) error {
			_, err := store.WatchKey(s, "k").Next(ctx)
			return err
		},
	}
}

func eachCall(t *testing.T, rt http.RoundTripper, check func(t *testing.T, err error),
	except ...string) {
	t.Helper()
	s := over(t, rt)
	for name, f := range calls(s) {
		if slices.Contains(except, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			err := f(t.Context())
			if err == nil {
				t.Fatal("no error")
			}
			check(t, err)
			if name != "watch" && !strings.HasPrefix(err.Error(), name) {
				t.Errorf("error %q does not begin with the operation %q", err, name)
			}
		})
	}
}

func TestPermissionDeniedIsItsOwnKindAndNamesWhatIsNeeded(t *testing.T) {
	eachCall(t, always(403, "Permission denied: token with AccessorID '00' lacks permission"),
		func(t *testing.T, err error) {
			wantKind(t, err, store.ErrDenied, false)
			wantText(t, err, "the token needs ")
		})
}

func TestATransactionDeniedByOneKeyIsDeniedNotRefused(t *testing.T) {
	body := `{"Results":null,"Errors":[{"OpIndex":1,` +
		`"What":"Permission denied: token lacks permission 'key:write' on \"l\""}]}`
	_, err := over(t, always(409, body)).Txn(t.Context(), store.Set("k", nil, 0), store.Delete("l"))
	wantKind(t, err, store.ErrDenied, false)
	wantText(t, err, `the token needs key:write on "l"`)
}

func TestEachStatusHasItsKindAndItsOutcome(t *testing.T) {
	for _, c := range []struct {
		status  int
		body    string
		kind    error
		unknown bool
		says    string
		except  string
	}{
		{500, "No cluster leader", store.ErrUnreachable, true, "", ""},
		{502, "<html>bad gateway</html>", store.ErrUnreachable, true, "", ""},
		{503, "overloaded", store.ErrUnreachable, true, "", ""},
		{504, "", store.ErrUnreachable, true, "", ""},
		{404, "<html>not found</html>", store.ErrUnreachable, true, "", ""}, // no empty prefix
		{403, "ACL system must be bootstrapped before making any requests that require " +
			"authorization: ACL not found", store.ErrUnreachable, false,
			"Consul's ACL system is not bootstrapped", ""},
		{413, "Request body too large", store.ErrInvalid, false, "send less at once", ""},
		// "read txn" changes nothing: the client hides its status, and nobody needs it
		{429, "Your IP is issuing too many concurrent connections", store.ErrUnreachable, false,
			"http_max_conns_per_client", "read txn"},
	} {
		t.Run(fmt.Sprint(c.status), func(t *testing.T) {
			eachCall(t, always(c.status, c.body), func(t *testing.T, err error) {
				wantKind(t, err, c.kind, c.unknown)
				wantText(t, err, c.says)
			}, c.except)
		})
	}
}

func TestGarbageIsNeverData(t *testing.T) {
	except := map[string][]string{
		"true": {"session destroy"}, // is what Consul says
		// The client gives a list without an entry for a missing key. It takes
		// Consul's own headers around such a body to be mistaken for one.
		"[null]": {"get", "watch"},
	}
	for _, body := range []string{"", "garbage", "<html>true</html>", "{", "[",
		`{"Results":[{"KV":`, "{}", "true", "[null]", `[{"Key":"other","Value":""}]`, `"x"`} {
		t.Run(body, func(t *testing.T) {
			eachCall(t, always(200, body, "X-Consul-Index", "7", "X-Consul-KnownLeader", "true"),
				func(t *testing.T, err error) {
					wantKind(t, err, store.ErrUnreachable, true)
				}, except[body]...)
		})
	}
}

func TestATruncatedBodyIsUnreachable(t *testing.T) {
	cut := tripper(func(r *http.Request) (*http.Response, error) {
		resp := answer(r, 200, "", "X-Consul-Index", "7")
		resp.Body = io.NopCloser(io.MultiReader(strings.NewReader(`[{"Key":"k","Val`),
			failing{io.ErrUnexpectedEOF}))
		return resp, nil
	})
	eachCall(t, cut, func(t *testing.T, err error) { wantKind(t, err, store.ErrUnreachable, true) })
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestARefusedConnectionHasAKnownOutcomeAndACutOneHasNot(t *testing.T) {
	refused := tripper(func(*http.Request) (*http.Response, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	})
	eachCall(t, refused, func(t *testing.T, err error) {
		wantKind(t, err, store.ErrUnreachable, false)
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("the cause is lost: %v", err)
		}
	})
	cut := tripper(func(*http.Request) (*http.Response, error) {
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	})
	eachCall(t, cut, func(t *testing.T, err error) { wantKind(t, err, store.ErrUnreachable, true) })
}

func TestEveryCallHasItsOwnDeadline(t *testing.T) {
	for name := range calls(nil) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := over(t, tripper(hang), func(c *store.Config) {
					c.CallTimeout = 2 * time.Second
				})
				start := time.Now()
				err := calls(s)[name](t.Context())
				wantKind(t, err, store.ErrUnreachable, true)
				wantText(t, err, "no answer within ")
				if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
					t.Errorf("error %q matches a context error, but the caller's context lives",
						err)
				}
				want := 2 * time.Second
				if strings.HasPrefix(name, "list") {
					want *= 10
				}
				if took := time.Since(start); took != want {
					t.Errorf("took %v, want %v", took, want)
				}
			})
		})
	}
}

func TestTheEndOfTheCallersContextIsSaid(t *testing.T) {
	for name := range calls(nil) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := over(t, tripper(hang))
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				err := calls(s)[name](ctx)
				wantKind(t, err, store.ErrUnreachable, true)
				if !errors.Is(err, context.Canceled) {
					t.Errorf("error %q does not match context.Canceled", err)
				}
				ctx, cancel = context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				err = calls(s)[name](ctx)
				wantKind(t, err, store.ErrUnreachable, true)
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error %q does not match context.DeadlineExceeded", err)
				}
			})
		})
	}
}

func TestWithAContextThatHasEndedNothingIsSent(t *testing.T) {
	s := over(t, tripper(func(*http.Request) (*http.Response, error) {
		t.Error("sent")
		return nil, io.EOF
	}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, f := range calls(s) {
		err := f(ctx)
		wantKind(t, err, store.ErrUnreachable, false)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestConfigIsValidated(t *testing.T) {
	for _, change := range []func(*store.Config){
		func(c *store.Config) { c.Client = nil },
		func(c *store.Config) { c.CallTimeout = -1 },
	} {
		cfg := config(t, tripper(hang))
		change(&cfg)
		_, err := store.Open(cfg)
		wantKind(t, err, store.ErrInvalid, false)
	}
}
