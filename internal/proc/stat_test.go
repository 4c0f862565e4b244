package proc

import (
	"strings"
	"testing"
)

func TestStatIsReadPastAnyCommandName(t *testing.T) {
	const rest = " 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 %T 0 987654 0 0 18446744073709551615"
	for line, want := range map[string]Stat{
		"42 (coordd) S" + threads(rest, "7"):    {PID: 42, Parent: 1, Session: 42, Start: 987654},
		"42 (a) R 1 (b) S" + threads(rest, "1"): {PID: 42, Parent: 1, Session: 42, Start: 987654},
		"42 () Z" + threads(rest, "1"):          {PID: 42, Parent: 1, Session: 42, Start: 987654, Gone: true},
		"42 (x) T" + threads(rest, "1"):         {PID: 42, Parent: 1, Session: 42, Start: 987654, Stopped: true},
		// other threads of it still run
		"42 (x\n) Z" + threads(rest, "2"):           {PID: 42, Parent: 1, Session: 42, Start: 987654},
		"42 (coordd) X" + threads(rest, "0") + "\n": {PID: 42, Parent: 1, Session: 42, Start: 987654, Gone: true},
	} {
		if got, err := parse(line); err != nil || got != want {
			t.Errorf("%q: %+v, error %v, want %+v", line, got, err, want)
		}
	}
	whole := " 1 42 42 0 -1 %F 1 0 0 0 0 0 0 0 20 0 1 0 987654" + strings.Repeat(" 0", 49-22) +
		" 4096 5120 0"
	for flags, want := range map[string]Stat{
		"4194560": {PID: 42, Parent: 1, Session: 42, Start: 987654, EnvStart: 4096, EnvEnd: 5120},
		"4194564": {PID: 42, Parent: 1, Session: 42, Start: 987654, EnvStart: 4096, EnvEnd: 5120, Ending: true},
		"2097152": {PID: 42, Parent: 1, Session: 42, Start: 987654, EnvStart: 4096, EnvEnd: 5120, Kernel: true},
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
