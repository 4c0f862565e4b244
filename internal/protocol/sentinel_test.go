package protocol

import (
	"strings"
	"testing"
	"time"
)

func TestASentinelNamesASessionAndALeaseThatCanBe(t *testing.T) {
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
		strings.ToUpper(session[:2]) + "AA" + session[4:] + " 7 20s": 20 * time.Second,
		"":                         0,
		"9 9 9999999999999999999h": 0,
	} {
		named := ""
		if strings.HasPrefix(value, session) {
			named = session
		}
		if who, got := ReadSentinel([]byte(value)); got != want || who != named {
			t.Errorf("%q: %q, %v; want %q, %v", value, who, got, named, want)
		}
	}
}
