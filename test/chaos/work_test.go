//go:build linux

package chaos_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// work is what a user gives to --exec: one shell for each item. It takes the item's lock, which the
// kernel gives up at its end and not before, says whether it got it (0, or 99 when another still
// has it, and then also when it got it after all), and waits for SIGTERM. Its payload is its
// temper: what it does then.
const work = `
say() { echo "$1 $COORDD_ITEM $COORDD_TOKEN $$ $CHAOS_PROC $2" >>"$CHAOS_DIR/journal"; }
read -r temper long
exec 9>>"$CHAOS_DIR/lock-$COORDD_ITEM"
case $temper in
deaf) trap "" TERM ;;
slow) trap 'trap "" TERM; sleep "$long" 9>&-; say stop; exit 0' TERM ;;
*) trap 'trap "" TERM; say stop; exit 0' TERM ;;
esac
flock -n -E 99 9; got=$?
say start $got
test $got = 0 || { flock 9 && say lock; }
while :; do read -r never; done <>"$CHAOS_DIR/hold"
`

// temper draws what an item's command does when it is to stop: one of six goes on until it is
// killed, one of three works on for a second and more, some of these for longer than they may, and
// all others end at once.
func (w *world) temper() string {
	switch n := w.rand.IntN(6); {
	case n == 0:
		return "deaf"
	case n <= 2:
		return fmt.Sprintf("slow %.2f", 1+2.5*w.rand.Float64())
	default:
		return ""
	}
}

func TestCommandsEndAsTheirTempersSay(t *testing.T) {
	t.Parallel()
	for _, temper := range []string{"", "slow 1.00", "deaf"} {
		t.Run("temper "+temper, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, pipe := range []string{"journal", "hold"} {
				if err := syscall.Mkfifo(filepath.Join(dir, pipe), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			journal, err := os.OpenFile(filepath.Join(dir, "journal"), os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer journal.Close()
			lines := bufio.NewScanner(journal)
			says := func(want string) {
				t.Helper()
				if !lines.Scan() || strings.TrimSpace(lines.Text()) != want {
					t.Fatalf("the command says %q, not %q: %v", lines.Text(), want, lines.Err())
				}
			}
			cmd := exec.CommandContext(t.Context(), "sh", "-c", work)
			cmd.Stdin = strings.NewReader(temper)
			cmd.Env = append(os.Environ(), "CHAOS_DIR="+dir, "CHAOS_PROC=m1#1", "COORDD_ITEM=a",
				"COORDD_TOKEN=5")
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
			begin := time.Now()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			end := func(sig syscall.Signal) {
				t.Helper()
				if err := syscall.Kill(-cmd.Process.Pid, sig); err != nil {
					t.Fatal(err)
				}
			}
			line := fmt.Sprintf("a 5 %d m1#1", cmd.Process.Pid)
			says("start " + line + " 0")
			end(syscall.SIGTERM)
			if temper == "deaf" {
				select {
				case err := <-ended:
					t.Fatalf("it ends upon SIGTERM: %v", err)
				case <-time.After(time.Second):
				}
				end(syscall.SIGKILL)
				<-ended
				return
			}
			says("stop " + line)
			if took := time.Since(begin); temper != "" && took < time.Second {
				t.Errorf("it takes only %v to stop", took)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
	w := world{rand: rand.New(rand.NewPCG(1, 1))}
	drawn := map[string]int{}
	for range share * members {
		kind, _, _ := strings.Cut(w.temper(), " ")
		drawn[kind]++
	}
	if len(drawn) != 3 || drawn["deaf"] < 5 || drawn["slow"] < 10 {
		t.Errorf("the tempers of %d commands are %v", share*members, drawn)
	}
}
