//go:build linux

package chaos_test

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/test/realconsul"
)

// stormLength is how long the faults of one storm go on: enough for one that outlasts a take-over,
// and one beyond the TTL.
const stormLength = 56 * time.Second

func TestFiveMembersOnThreeServersSurviveStormsOfFaults(t *testing.T) {
	t.Parallel()
	// The one storm of a test run is always the same; `make chaos` draws others each time.
	seed := uint64(104)
	if os.Getenv("COORDD_CHAOS_MINUTES") != "" {
		seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	if text := os.Getenv("COORDD_CHAOS_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("COORDD_CHAOS_SEED is %q: give a number", text)
		}
	}
	length := time.Duration(0)
	if text := os.Getenv("COORDD_CHAOS_MINUTES"); text != "" {
		minutes, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatalf("COORDD_CHAOS_MINUTES is %q: give a number", text)
		}
		length = time.Duration(minutes * float64(time.Minute))
	}
	t.Logf("COORDD_CHAOS_SEED=%d draws the same faults again", seed)
	wanted := kinds
	if text := os.Getenv("COORDD_CHAOS_FAULTS"); text != "" {
		wanted = nil
		for name := range strings.SplitSeq(text, ";") {
			wanted = append(wanted, named(name))
		}
	}
	for i, c := range []struct {
		name    string
		options realconsul.Options
		first   []string
	}{
		{"plain", realconsul.Options{}, []string{"SIGSTOP of coordd beyond the TTL",
			"suspend all until taken over", "cut off and session destroyed"}},
		{"secured", realconsul.Options{ACL: true, TLS: true}, []string{"kill -9 of the guard alone",
			"kill -9 of coordd and guard until taken over", "tokens revoked"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			end := time.Now().Add(length)
			var first []kind
			for _, name := range c.first {
				if k := named(name); slices.ContainsFunc(wanted, func(o kind) bool {
					return o.name == name
				}) {
					first = append(first, k)
				}
			}
			x := newWeatherOf(wanted, seed, uint64(i), c.options.ACL, first...)
			w := newWorld(t, c.name, c.options, x.rand.Uint64())
			w.settle("the start")
			for n := 1; n == 1 || time.Now().Before(end); n++ {
				w.rage(x.next(stormLength))
				w.settle("storm " + strconv.Itoa(n))
			}
			w.stop()
		})
	}
}

// rage lets a storm go through and returns when everything it broke is mended.
func (w *world) rage(s storm) {
	w.t.Helper()
	// A storm that is behind its plan, on a slow machine or since one fault made another slow,
	// leaves out the rest.
	late := time.Now().Add(stormLength)
	var all sync.WaitGroup
	for lane := range s {
		all.Go(func() {
			for _, f := range s[lane] {
				if time.Sleep(f.pause); time.Now().After(late) {
					w.tell("left out: %v", f)
					continue
				}
				w.tell("%v", f)
				w.t.Logf("%s: %v", w.name, f)
				f.kind.do(w, f)
				w.tell("over: %s", f.kind.name)
			}
		})
	}
	all.Wait()
	ready, cancelReady := context.WithTimeout(context.Background(), patience)
	defer cancelReady()
	if err := w.consul.WaitReady(ready); err != nil {
		w.t.Fatal(err)
	}
	w.tell("the storm is over")
}
