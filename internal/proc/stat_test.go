package proc

import (
	"strings"
	"testing"
)

func TestStatIsReadPastAnyCommandName(t *testing.T) {
	const rest = " 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 %T 0 987654 0 0 18446744073709551615"
	threads := func(n string) string { return strings.Replace(rest, "%T", n, 1) }
	is := Stat{PID: 42, Start: 987654}
	gone := is
	gone.Gone = true
	for line, want := range map[string]Stat{
		"42 (coordd) S" + threads("7"):        is,
		"42 (a) R 1 (b) S" + threads("1"):     is,
		"42 (x\n) Z" + threads("2"):           is, // other threads of it still run
		"42 () Z" + threads("1"):              gone,
		"42 (coordd) X" + threads("0") + "\n": gone,
	} {
		if got, err := parse(line); err != nil || got != want {
			t.Errorf("%q: %+v, error %v, want %+v", line, got, err, want)
		}
	}
	for _, line := range []string{"", "42", "42 (x", "x (y) S" + threads("1"), "42 (x) S 1 2 3",
		")("} {
		if got, err := parse(line); err == nil {
			t.Errorf("%q: %+v without an error", line, got)
		}
	}
}
