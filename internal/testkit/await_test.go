package testkit_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/internal/testkit"
)

// failing is a test that notes how it fails.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) { f.said = fmt.Sprintf(format, args...) }

func TestAWaitEndsWithTheConditionAndSaysHowLongItTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		took := testkit.Await(t, time.Minute, "ten seconds pass", func() string {
			if at := time.Since(begin); at < 10*time.Second {
				return "only " + at.String()
			}
			return ""
		})
		if took < 10*time.Second || took > 11*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestAWaitInVainSaysWhatWasAwaitedAndWhatItLastSaw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, looks := &failing{TB: t}, 0
		testkit.Await(f, time.Minute, "a leader", func() string {
			looks++
			return fmt.Sprintf("look %d saw none", looks)
		})
		want := fmt.Sprintf("not within 1m0s: a leader: look %d saw none", looks)
		if f.said != want {
			t.Errorf("it says %q, not %q", f.said, want)
		}
		f.said = ""
		testkit.Eventually(f, "a leader", func() bool { return false })
		if !strings.Contains(f.said, "2m0s: a leader") {
			t.Errorf("it says %q", f.said)
		}
	})
}

func TestALookThatTakesLongIsNotRepeatedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		testkit.Look(time.Minute, func() string {
			looks++
			time.Sleep(100 * time.Millisecond)
			return "not so"
		})
		if looks > 110 { // 100 ms of each 600
			t.Errorf("%d looks in a minute", looks)
		}
	})
}
