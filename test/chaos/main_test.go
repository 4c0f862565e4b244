//go:build linux

// Package chaos_test runs five members of the coordd binary, each with children, on three real
// Consul servers, and breaks things: storms of faults drawn from a seed, one or two at a time, each
// for a bounded time. After a storm all is healed, and the service has to be whole again within a
// bound computed from its settings; then the next storm begins.
//
// What is held against every run:
//
//   - I1: each child takes a lock that only the kernel can give up for it, and writes its start and
//     its stop into one pipe. One that ends without a word is missed by its process id. Neither a
//     clock nor coordd's own word is needed to know that two of them worked on one item at once.
//   - I2: the tokens in those lines rise with each change of hands, and no view of Consul's keys
//     shows an item with two.
//   - I3: after each storm every item has one living child, no member more than one item above
//     another.
//   - I4: every item that was added is there at the end, and none that was removed.
//   - The members' own histories (coordd run --history) agree: no two of them led at once, but for
//     one whose session an operator, or Consul with its agent, had ended early, and epochs rose.
//   - The children of a member that was stopped by SIGSTOP are gone when its lease is over, and
//     those of one that was killed soon; at the end every member stops cleanly, and no process is
//     left.
//
// The judge of I1 to I4 is internal/history, which gets the lines of the children, the views of the
// keys and the deaths and halts of the members.
//
// What is not promised: a seed replays the same faults at the same times, and not what the
// processes make of them; views of the keys show most of what Consul went through, not each of its
// writes; all hosts here are one, with one clock.
//
// Some commands end at once when they are told to, some work on for seconds, some until they are
// killed. Members run two versions of the binary, and change from one to the other, and from one
// TMPDIR to another, when they are started again.
//
// COORDD_CHAOS_SEED replays a seed. COORDD_CHAOS_MINUTES is how long new storms begin; without it
// there is one. COORDD_CHAOS_FAULTS names the only faults that are drawn ("kill -9 and start
// again;operator destroys sessions"), and COORDD_CHAOS_OTHER a binary that is the second version,
// such as that of last month.
package chaos_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/coordd/coordd/internal/testkit"
)

// The binaries under test, of two versions, and a directory that outlives every test: processes on
// their way out may still write into it.
var (
	binaries [2]string
	scratch  string
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Both clusters at once, however few cores there are: nearly all of the time here is waiting.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(testkit.Prepared{Tests: m, Name: "chaos", Make: build})
}

// build makes two versions of one source, or takes the second from COORDD_CHAOS_OTHER.
func build(dir string) error {
	scratch = dir
	var versions [2]string
	for i, release := range []string{"v1-chaos", "v2-chaos"} {
		binaries[i] = filepath.Join(dir, "coordd-"+release)
		if other := os.Getenv("COORDD_CHAOS_OTHER"); i == 1 && other != "" {
			binaries[i] = other
		} else if err := testkit.Build(binaries[i], "-ldflags",
			"-X main.release="+release); err != nil {
			return err
		}
		version, err := exec.Command(binaries[i], "version").Output()
		if err != nil {
			return fmt.Errorf("asking %s for its version: %w", binaries[i], err)
		}
		versions[i] = string(version)
	}
	if versions[0] == versions[1] {
		return fmt.Errorf("two binaries of one version: %s", versions[0])
	}
	return nil
}
