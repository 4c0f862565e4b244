package configstore_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// Where a rule goes that a token had, it may neither write a key nor read it. What was written
// before that holds up nobody.
func TestAWriteThatWasAppliedAndMayNoLongerBeReadHoldsUpNobody(t *testing.T) {
	lost := func(s *host) { // applied; the answer is lost, and the rule is gone when Consul is back
		s.net.Next(1, func(req *http.Request) (*http.Response, error) {
			res, err := s.net.Lose(req)
			s.net.Cut(errors.New("cut off"))
			return res, err
		})
	}
	others := func(t *testing.T, r *rig, s *host) {
		t.Helper()
		if _, err := s.Put(r.ctx(time.Minute), "good", []byte("1")); err != nil {
			t.Errorf("the write behind it: %v; %+v", err, s.Queue().Get())
		}
		r.expect("writes", r.times("forbidden/1=x"), 1)
		q := s.Queue().Get()
		r.expect("waiting, refused", fmt.Sprint(q.Waiting, q.Refused), "0 0")
	}
	for _, log := range []bool{true, false} {
		t.Run(fmt.Sprint("its caller has gone, log ", log), func(t *testing.T) {
			dir := t.TempDir()
			run(t, func(t *testing.T, r *rig) {
				s := r.start(func(c *configstore.Config) {
					if log {
						c.LogDir = dir
					}
				}).ready()
				s.put("before", "1")
				lost(s)
				if _, err := s.Put(r.ctx(100*time.Millisecond), "forbidden/1",
					[]byte("x")); err == nil {
					t.Error("it was answered")
				}
				s.denying("forbidden/")
				s.net.Cut(nil)
				others(t, r, s)
			})
		})
	}
	t.Run("its caller waits", func(t *testing.T) {
		run(t, func(t *testing.T, r *rig) {
			s := r.start().ready()
			s.put("before", "1")
			s.net.Next(1, func(req *http.Request) (*http.Response, error) {
				res, err := s.net.Lose(req)
				s.denying("forbidden/")
				return res, err
			})
			if _, err := s.Put(r.ctx(30*time.Second), "forbidden/1", []byte("x")); err != nil {
				t.Errorf("it was applied, and its caller hears: %v", err)
			}
			others(t, r, s)
		})
	})
	t.Run("the machine died", func(t *testing.T) {
		dir, after := t.TempDir(), t.TempDir()
		run(t, func(t *testing.T, r *rig) {
			var disk []byte
			s := r.start(logged(dir), configstore.WithSync(func(f *os.File) error {
				if b, err := os.ReadFile(filepath.Join(dir, "log")); err == nil {
					disk = b
				}
				return f.Sync()
			})).ready()
			s.put("forbidden/1", "x")
			must(t, os.WriteFile(filepath.Join(after, "log"), disk, 0o600))
			s.kill()
			s = r.start(logged(after))
			s.denying("forbidden/")
			s.ready()
			others(t, r, s)
		})
	})
}

// Others had written to its key, which the token may not look at any more: it is refused as one
// that is denied.
func TestAWriteInTheLogThatMetAnotherBehindARuleIsRefusedWithinTheLimit(t *testing.T) {
	dir := t.TempDir()
	run(t, func(t *testing.T, r *rig) {
		s := r.start(logged(dir)).ready()
		s.put("forbidden/1", "0")
		s.net.Cut(errors.New("cut off"))
		s.logs("forbidden/1", "x")
		r.strangerDeletes("config_data/forbidden/1")
		to, aimed, first := s.net.To(), transport.TxnWith("config_data/forbidden"), true
		s.net.Via(transport.Func(func(req *http.Request) (*http.Response, error) {
			if !aimed(req) {
				return to.RoundTrip(req)
			}
			if !first {
				return denied(req)
			}
			first = false
			res, err := to.RoundTrip(req)
			if err == nil && res.StatusCode != http.StatusConflict {
				t.Errorf("it is answered %d", res.StatusCode)
			}
			return res, err
		}))
		s.net.Cut(nil)
		r.await("it is refused", 2*configstore.DeniedLimit, func() bool {
			return s.Queue().Get().Refused == 1
		})
		s.put("good", "1")
		r.expect("writes", r.times("forbidden/1=x"), 0)
	})
}

// Commands with a log are there for a short time each. What one of them has waited counts for the
// next, however long after it that comes.
func TestCommandsGetPastADeniedWriteTogether(t *testing.T) {
	for _, pause := range []time.Duration{0, time.Hour} {
		for wait, most := range map[time.Duration]int{30 * time.Second: 3, 2 * time.Second: 32} {
			t.Run(fmt.Sprint(wait, " each, after ", pause), func(t *testing.T) {
				dir := t.TempDir()
				run(t, func(t *testing.T, r *rig) {
					command := func() *host {
						return r.start(logged(dir), func(c *configstore.Config) {
							c.Owner = configstore.CommandOwner()
						})
					}
					s := command().ready()
					s.net.Cut(errors.New("cut off"))
					s.logs("forbidden/1", "x")
					s.stop()
					for n := 1; ; n++ {
						s := command()
						s.denying("forbidden/")
						ctx := r.ctx(wait)
						err := s.WaitLoaded(ctx)
						if err == nil {
							_, err = s.Put(ctx, "good", []byte("1"))
						}
						s.stop()
						if err == nil {
							break
						}
						if n == most {
							t.Fatalf("after %d commands: %v", n, err)
						}
						time.Sleep(pause)
					}
				})
			})
		}
	}
}

// What a stranger writes into the marker of how long it was tried makes that no longer.
func TestAnAimedDenialInTheMarkerHoldsUpNobodyForLonger(t *testing.T) {
	const most = "9223372036854775807"
	for _, aim := range []string{`"for":` + most, `"for":-` + most, `"t":` + most, `"t":-` + most,
		`"n":18446744073709551615`} {
		t.Run(aim, func(t *testing.T) {
			dir := t.TempDir()
			run(t, func(t *testing.T, r *rig) {
				s := r.start(logged(dir)).ready()
				s.net.Cut(errors.New("cut off"))
				s.logs("forbidden/1", "x")
				s.denying("forbidden/")
				s.net.Cut(nil)
				time.Sleep(20 * time.Second)
				kv := r.consul.Client().KV()
				all, _, err := kv.List("service/demo/config_log/", nil)
				must(t, err)
				if len(all) != 1 {
					t.Fatalf("%d markers", len(all))
				}
				before, denied, found := strings.Cut(string(all[0].Value), `"denied":`)
				name, _, _ := strings.Cut(aim, ":")
				aimed := regexp.MustCompile(name+`:-?[0-9]+`).ReplaceAllString(denied, aim)
				if !found || aimed == denied {
					t.Fatalf("the marker is %s", all[0].Value)
				}
				all[0].Value = []byte(before + `"denied":` + aimed)
				_, err = kv.Put(all[0], nil)
				must(t, err)
				if _, err := s.Put(r.ctx(configstore.DeniedLimit+30*time.Second), "good",
					[]byte("1")); err != nil {
					t.Errorf("another: %v", err)
				}
			})
		})
	}
}
