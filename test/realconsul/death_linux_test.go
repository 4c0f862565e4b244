package realconsul_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/realconsul"
)

// A test process that is killed runs no clean-up: the kernel has to end its server.
func TestNoServerOutlivesAKilledTest(t *testing.T) {
	t.Parallel()
	const env = "COORDD_REALCONSUL_VICTIM"
	if os.Getenv(env) != "" {
		c := realconsul.Start(t, realconsul.Options{})
		if err := c.Servers[0].Freeze(); err != nil { // even one that cannot run
			t.Fatal(err)
		}
		_, _ = os.Stdout.WriteString("PID " + strconv.Itoa(c.Servers[0].PID()) + "\n")
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), env+"=1", "TMPDIR="+t.TempDir()) // it will not tidy up
	out, err := cmd.Output()
	if err == nil {
		t.Fatalf("the victim was not killed:\n%s", out)
	}
	_, after, found := strings.Cut(string(out), "PID ")
	if !found {
		t.Fatalf("the victim had no server:\n%s", out)
	}
	pid, _, _ := strings.Cut(after, "\n")
	testkit.Eventually(t, "server "+pid+" ends after the test that started it", func() bool {
		_, err := os.Stat("/proc/" + pid)
		return os.IsNotExist(err)
	})
}
