package proc

import (
	"strings"
	"testing"
)

func TestStatIsReadPastAnyCommandName(t *testing.T) {
	const rest = " 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 %T 0 987654 0 0 18446744073709551615"
	is := Stat{PID: 42, Parent: 1, Session: 42, Start: 987654}
	gone, stopped, shown, headless := is, is, is, is
	gone.Gone, stopped.Stopped = true, true
	gone.Leaving, headless.Leaving = true, true
	shown.EnvStart, shown.EnvEnd = 4096, 5120
	ending, kernel := shown, shown
	ending.Ending, ending.Leaving, kernel.Kernel = true, true, true
	for line, want := range map[string]Stat{
		"42 (coordd) S" + threads(rest, "7"):    is,
		"42 (a) R 1 (b) S" + threads(rest, "1"): is,
		"42 () Z" + threads(rest, "1"):          gone,
		"42 (x) T" + threads(rest, "1"):         stopped,
		// other threads of it still run
		"42 (x\n) Z" + threads(rest, "2"):           headless,
		"42 (coordd) X" + threads(rest, "0") + "\n": gone,
	} {
		if got, err := parse(line); err != nil || got != want {
			t.Errorf("%q: %+v, error %v, want %+v", line, got, err, want)
		}
	}
	hung := headless // its other thread hangs in its exit, and this is that one
	if got, err := parse("42 (x) D" + strings.Replace(threads(rest, "2"), "4194560", "4194564",
		1)); err != nil || got != hung {
		t.Errorf("a thread that hangs in its exit: %+v, error %v, want %+v", got, err, hung)
	}
	whole := " 1 42 42 0 -1 %F 1 0 0 0 0 0 0 0 20 0 1 0 987654" + strings.Repeat(" 0", 49-22) +
		" 4096 5120 0"
	for flags, want := range map[string]Stat{
		"4194560": shown,
		"4194564": ending,
		"2097152": kernel,
	} {
		got, err := parse("42 (x) S" + strings.Replace(whole, "%F", flags, 1))
		if err != nil || got != want {
			t.Errorf("flags %s: %+v, error %v, want %+v", flags, got, err, want)
		}
	}
	for _, line := range []string{"", "42", "42 (x", "x (y) S" + threads(rest, "1"),
		"42 (x) S 1 2 3", ")("} {
		if got, err := parse(line); err == nil {
			t.Errorf("%q: %+v without an error", line, got)
		}
	}
}

func threads(rest, n string) string { return strings.Replace(rest, "%T", n, 1) }
