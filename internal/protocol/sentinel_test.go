package protocol

import (
	"testing"
	"time"
)

func TestASentinelNamesALeaseThatCanBe(t *testing.T) {
	const session = "00970ff2-0000-0000-0000-000000000001"
	for value, want := range map[string]time.Duration{
		string(Sentinel(session, 7, 24*time.Second)): 24 * time.Second,
		string(Sentinel(session, 7, MinLease)):       MinLease,
		session + " 7":                               0, // of a version before
		session + " 7 1s":                            0,
		session + " 7 25h":                           0,
		session + " 7 -1h":                           0,
		session + " 7 20s and on":                    0,
		"\x00 not for us {":                          0,
		"":                                           0,
		"9 9 9999999999999999999h":                   0,
	} {
		if got := sentinelLease([]byte(value)); got != want {
			t.Errorf("%q: %v; want %v", value, got, want)
		}
	}
}
