package member

import (
	"fmt"
	"testing"
	"time"
)

// Items that were found missing at different moments are soon read together: what they cost is one
// request in each rest, not one for each group of them.
func TestItemsThatAreMissingAreReadTogether(t *testing.T) {
	start := time.Unix(1_000_000, 123_456_789)
	m := missing{}
	for group := range 20 { // by 97 ms later each
		m.found(fmt.Sprint(group), start.Add(time.Duration(group)*97*time.Millisecond),
			100*time.Millisecond)
	}
	reads, last := 0, start.Add(time.Minute)
	for now := start; now.Before(last); {
		next := last
		for id := range m {
			if until, ok := m.rests(id, now); ok && until.Before(next) {
				next = until
			}
		}
		now = next
		if now.After(start.Add(30 * time.Second)) {
			reads++
		}
		for id := range m {
			if _, ok := m.rests(id, now); !ok {
				m.found(id, now, 100*time.Millisecond)
				if until, _ := m.rests(id, now); !until.After(now) ||
					until.After(now.Add(restMissing)) {
					t.Fatalf("rests until %v, found missing at %v", until, now)
				}
			}
		}
	}
	if most := int(30*time.Second/restMissing) + 1; reads > most {
		t.Errorf("%d reads in 30 s of items that rest for 2 s, want at most %d", reads, most)
	}
}

// However short the soak is, an item that is missing is not read all the time.
func TestAnItemThatIsMissingIsReadSeldomAlsoWithAShortSoak(t *testing.T) {
	for _, soak := range []time.Duration{1, time.Millisecond} {
		start := time.Unix(1_000_000, 123_456_789)
		m, reads := missing{}, 0
		for now := start; now.Before(start.Add(20 * time.Second)); now, _ = m.rests("a", now) {
			m.found("a", now, soak)
			if reads++; reads > 1000 {
				break
			}
		}
		if most := 16; reads > most { // six of them in the first 2 s
			t.Errorf("a soak of %v: %d reads in 20 s, want at most %d", soak, reads, most)
		}
	}
}
