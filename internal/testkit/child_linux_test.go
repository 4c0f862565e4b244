package testkit_test

import (
	"os/exec"
	"slices"
	"testing"

	"github.com/coordd/coordd/internal/testkit"
)

func TestAChildIsFoundByItsVariablesUntilItIsGone(t *testing.T) {
	t.Setenv("COORDD_HIDDEN", "yes")
	mark := "TESTKIT_MARK=" + t.TempDir()
	cmd := exec.Command("sleep", "1000")
	cmd.Env = append(testkit.Environ("COORDD_"), mark, "TESTKIT_KIND=child")
	c, err := testkit.StartChild(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Kill()
	found := func(variables ...string) bool {
		pids, err := testkit.Marked(variables...)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Contains(pids, c.PID)
	}
	if !c.Running() || !found(mark) || !found(mark, "TESTKIT_KIND=child") ||
		!found("TESTKIT_KIND=") {
		t.Error("it is not found")
	}
	if found(mark, "TESTKIT_KIND=chil") || found("TESTKIT_KIND") || found(mark, "COORDD_HIDDEN=") {
		t.Error("it is found by what it does not have")
	}
	c.Kill()
	if c.Running() || found(mark) || c.Code != -1 {
		t.Errorf("it was killed: running %v, code %d", c.Running(), c.Code)
	}
}

func TestATailIsTheEndOfAText(t *testing.T) {
	for text, want := range map[string]string{"": "", "a\nb\n": "a\nb", "a\nb\nc": "...\nb\nc"} {
		if got := testkit.Tail(text, 2); got != want {
			t.Errorf("of %q it is %q, not %q", text, got, want)
		}
	}
}
