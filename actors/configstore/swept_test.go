package configstore_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/configstore"
)

// named gives a store a name. A writer makes its marker, and sweeps, beside the loading that ready
// waits for. It seldom asks whether its cache is up to date: these tests last for months.
func (r *rig) named(owner string, options ...func(*configstore.Config)) *host {
	r.t.Helper()
	h := r.start(append(options, func(c *configstore.Config) {
		c.Owner, c.MaxAge = owner, 20*time.Minute
	})...).ready()
	synctest.Wait()
	return h
}

// command runs one command, which sweeps.
func (r *rig) command(options ...func(*configstore.Config)) {
	r.t.Helper()
	c := r.named(configstore.CommandOwner(), options...)
	c.put("commanded", "1")
	c.stop()
}

func (r *rig) markers() string {
	r.t.Helper()
	keys, _, err := r.consul.Client().KV().Keys("service/demo/config_log/", "", nil)
	must(r.t, err)
	return strings.ReplaceAll(strings.Join(keys, " "), "service/demo/config_log/", "")
}

// elsewhere knows nothing of the other processes.
func elsewhere(c *configstore.Config) {
	c.Liveness = func(configProcess) configLiveness { return configUnknown }
}

func TestMarkersOfKilledCommandsAreCollected(t *testing.T) {
	number := func(n int) string { return fmt.Sprintf("%016d", n) }
	run(t, func(t *testing.T, r *rig) {
		for _, former := range []string{"once-00", "anon-00"} {
			r.named(former).kill() // by its look a command's of a commit before
		}
		r.named("m-killed").kill() // a member's may come back
		lives := r.named("command/" + number(1))
		lives.net.Cut(errors.New("suspended"))
		lives.cancel()
		<-lives.done
		away := r.named("command/" + number(2))
		away.kill()
		r.forget(away)
		host := r.named("") // in a container that is removed
		host.kill()
		r.forget(host)
		nameless := strings.Fields(r.markers())[4]
		r.named("command/" + number(3)).kill()
		r.stranger("config_log/late", `{"n":0,"claim":0,"by":{},"t":1}`) // made by a late request
		r.stranger("config_log/starts", fmt.Sprintf(`{"n":0,"claim":0,"by":{},"t":%d}`,
			time.Now().Unix()))
		r.stranger("config_log/strange", "garbage")
		expect := func(when string, names ...string) {
			t.Helper()
			r.expect(when, r.markers(), strings.Join(names, " "))
		}
		one, two, three, four := "command/"+number(1), "command/"+number(2), "command/"+number(3),
			"command/"+number(4)
		expect("before", "anon-00", one, two, three, "late", "m-killed", nameless, "once-00",
			"starts", "strange")
		s := r.named(four)
		expect("after", "anon-00", one, two, four, "m-killed", nameless, "once-00", "starts",
			"strange")
		s.stop()
		time.Sleep(25 * time.Hour)
		r.named("m-next")
		expect("a day later", "anon-00", one, "m-killed", "m-next", nameless, "once-00", "strange")
		time.Sleep(30 * 24 * time.Hour)
		r.command()
		expect("a month later", "anon-00", one, "m-killed", "m-next", "once-00", "strange")
	})
}

// A member's id may look like anything.
func TestTheMarkerOfAMemberStaysWhateverItsIDLooksLike(t *testing.T) {
	for _, id := range []string{"m", "once", "anon", "once-daily", "anon-00", "command",
		"nameless"} {
		t.Run(id, func(t *testing.T) {
			run(t, func(t *testing.T, r *rig) {
				s := r.named(id)
				s.put("before", "1")
				time.Sleep(25 * time.Hour)
				// Its answer is lost. Before its next try a command has come and gone on another
				// host, and somebody has deleted the key.
				s.net.Next(1, func(req *http.Request) (*http.Response, error) {
					res, err := s.net.Lose(req)
					was := r.markers()
					r.command(elsewhere)
					r.expect("its marker", r.markers(), was)
					r.strangerDeletes("config_data/k")
					return res, err
				})
				s.put("k", "1")
				r.expect("writes", r.times("k=1"), 1)
			})
		})
		t.Run(id+" with a log", func(t *testing.T) {
			dir, after := t.TempDir(), t.TempDir()
			run(t, func(t *testing.T, r *rig) {
				var disk []byte // what the log's file holds that was fsynced
				s := r.named(id, logged(dir), configstore.WithSync(func(f *os.File) error {
					if b, err := os.ReadFile(filepath.Join(dir, "log")); err == nil {
						disk = b
					}
					return f.Sync()
				}))
				s.put("k", "1")
				s.kill() // the whole machine, before the disk knows that the write is over
				must(t, os.WriteFile(filepath.Join(after, "log"), disk, 0o600))
				was := r.markers()
				r.command()
				r.expect("its marker", r.markers(), was)
				r.strangerDeletes("config_data/k")
				s = r.named(id, logged(after))
				s.put("other", "2")
				r.expect("k, which was written once and deleted", r.raw("config_data/k"), "-")
				r.expect("writes", r.times("k=1"), 1)
			})
		})
	}
}

// A host without a name keeps its marker as long as it writes. Where it has paused for so long that
// the marker is swept, it writes on, and does nothing twice.
func TestAHostWithoutANameWhoseMarkerIsSweptWritesNothingTwice(t *testing.T) {
	const day = 24 * time.Hour
	for owner, lifetime := range map[string]time.Duration{"": 30 * day,
		configstore.CommandOwner(): day} {
		run(t, func(t *testing.T, r *rig) {
			s := r.named(owner)
			for i := range 2 {
				s.put("now and then", fmt.Sprint(i))
				was := r.markers()
				time.Sleep(lifetime * 9 / 10)
				r.command(elsewhere)
				r.expect("its marker", r.markers(), was)
			}
			time.Sleep(lifetime * 2 / 10)
			r.command(elsewhere)
			r.expect("its marker, after a long pause", r.markers(), "")
			s.put("idle", "1")
			r.expect("what it writes then", r.times("idle=1"), 1)

			s.net.Next(1, func(req *http.Request) (*http.Response, error) {
				res, err := s.net.Lose(req)
				time.Sleep(lifetime * 11 / 10) // it is suspended
				r.command(elsewhere)
				r.strangerDeletes("config_data/k")
				return res, err
			})
			_, err := s.Put(t.Context(), "k", []byte("1"))
			if !errors.Is(err, configstore.ErrUnreachable) ||
				errors.Is(err, configstore.ErrConflict) {
				t.Errorf("nobody can tell whether it was applied, and the caller hears: %v", err)
			}
			r.expect("writes", r.times("k=1"), 1)
			s.put("k", "2")
			r.expect("k", r.raw("config_data/k"), "2")
		})
	}
}
