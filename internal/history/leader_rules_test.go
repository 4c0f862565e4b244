package history_test

import (
	"testing"
	"time"

	"github.com/coordd/coordd/internal/history"
)

func TestBrokenHistoriesOfLeadersAreRejected(t *testing.T) {
	rejected(t, map[string]broken{
		"one epoch, two leaders": {"I2", "lead with the same epoch 5", `
			0 boot a#1
			0 boot b#1
			1 lead a#1 5
			2 unlead a#1 5
			3 lead b#1 5`},
		"two lead at once": {"I2", "has not stopped leading until 3s later", `
			0 boot a#1
			0 boot b#1
			1 lead a#1 5
			2 lead b#1 6
			5 unlead a#1 5`},
		"the epoch falls": {"I2", "b#1 leads with epoch 5, after a#1 had led with 6", `
			0 boot a#1
			0 boot b#1
			1 lead a#1 6
			2 unlead a#1 6
			3 lead b#1 5
			9 unlead b#1 5`},
		"the epoch of one leader falls": {"I2",
			"a#1 leads with epoch 5, after a#1 had led with 6", `
			0 boot a#1
			1 lead a#1 6
			2 lead a#1 5`},
		"the epoch falls below one that was not the last": {"I2", "c#1 leads with epoch 6, after " +
			"a#1 had led with 7", `
			0 boot a#1
			0 boot b#1
			0 boot c#1
			1 lead a#1 7
			2 unlead a#1 7
			2 early b#1
			3 lead b#1 5
			3 unlead b#1 5
			4 lead c#1 6`},
		"the epoch falls after an amnesty": {"I2", "b#1 leads with epoch 5, after a#1 had " +
			"led with 6", `
			0 boot a#1
			0 boot b#1
			0 restored - 5s
			6 lead a#1 6
			7 unlead a#1 6
			8 lead b#1 5`},
		"the epoch falls long after a thaw": {"I2", "b#1 leads with epoch 5, after a#1 had " +
			"led with 6", `
			0 boot a#1
			0 boot b#1
			0 freeze b#1
			1 lead a#1 6
			2 unlead a#1 6
			3 thaw b#1
			5 lead b#1 5`},
		"two that lead and never say that they stopped": {"I2", "b#1 leads since 00:00:02.000, " +
			"and a#1 still leads 2s later", `
			0 boot a#1
			0 boot b#1
			1 lead a#1 5
			2 lead b#1 6
			4 alive a#1
			4 alive b#1`},
		"one whose lines break off while another leads": {"I2", "a#1 still leads 2s later", `
			0 boot a#1
			0 boot b#1
			1 lead a#1 5
			2 lead b#1 6
			4 alive a#1
			9 unlead b#1 6
			9 end b#1`},
		"one that leads again beside its successor": {"I2", "a#1 leads since 00:00:03.000, and " +
			"b#1 has not stopped leading until 2s later", `
			0 boot a#1
			0 boot b#1
			1 lead a#1 5
			1 early a#1
			2 lead b#1 6
			3 lead a#1 7
			5 unlead b#1 6`},
		"one that leads again just when the other stops": {"I2", "a#1 has not stopped leading " +
			"until 6s later", `
			0 boot a#1
			0 boot b#1
			1 lead a#1 5
			3 lead b#1 6
			4 unlead b#1 6
			9 lead b#1 7
			9 unlead a#1 5`},
		"one that was frozen, and leads on when it is awake": {"I2", "a#1 still leads 30s later", `
			0 boot a#1
			0 boot b#1
			1 lead a#1 5
			2 freeze a#1
			30 lead b#1 6
			40 thaw a#1
			60 alive a#1`},
		"one that was frozen before, and leads on beside its successor": {"I2", "a#1 has not " +
			"stopped leading until 2s later", `
			0 boot a#1
			0 boot b#1
			1 lead a#1 5
			2 freeze a#1
			3 thaw a#1
			30 lead b#1 6
			32 unlead a#1 5`},
		"two that lead before Consul loses writes": {"I2", "a#1 has not stopped leading until " +
			"2s later", `
			0 boot a#1
			0 boot b#1
			1 lead a#1 5
			2 lead b#1 6
			4 restored - 10s
			5 unlead a#1 5`},
		"two that lead before the lock of one is taken away": {"I2", "a#1 has not stopped " +
			"leading until 2s later", `
			0 boot a#1
			0 boot b#1
			1 lead a#1 5
			2 lead b#1 6
			4 early a#1
			5 unlead a#1 5`},
		"one that leads after its end": {"I2", "a#1 leads after its end", `
			0 boot a#1
			1 end a#1
			2 lead a#1 5`},
	})
}

func TestWhatIsNoBreachOfLeaders(t *testing.T) {
	accepted(t, map[string]string{
		"the leader's lock was taken away": `
			0 boot a#1
			0 boot b#1
			1 lead a#1 5
			2 early a#1
			3 lead b#1 6
			5 unlead a#1 5`,
		"a new epoch of the same leader": `
			0 boot a#1
			1 lead a#1 5
			2 lead a#1 6
			3 unlead a#1 6`,
		"a clean hand-over, and nobody says an end": `
			0 boot a#1
			0 boot b#1
			1 lead a#1 5
			2 unlead a#1 5
			2 lead b#1 6
			9 alive a#1
			9 alive b#1`,
		"a leader whose lines break off before its successor leads": `
			0 boot a#1
			0 boot b#1
			1 lead a#1 5
			8 alive a#1
			30 lead b#1 6
			40 alive b#1`,
		"a killed leader of whom others still write": `
			0 boot a#1
			0 boot b#1
			1 lead a#1 5
			8 alive a#1
			30 lead b#1 6
			31 set a#1 40 0 config_data/k v1
			32 early a#1
			40 alive b#1`,
		"a leader that is frozen until the history ends": `
			0 boot a#1
			0 boot b#1
			1 lead a#1 5
			2 freeze a#1
			30 lead b#1 6
			40 alive b#1`,
		"a leader that wakes up and does not know it yet when the history ends": `
			0 boot a#1
			0 boot b#1
			1 lead a#1 5
			2 freeze a#1
			30 lead b#1 6
			40 thaw a#1
			40.1 alive a#1`,
		"a leader whose lock was taken away when the history ends": `
			0 boot a#1
			0 boot b#1
			1 lead a#1 5
			2 early a#1
			3 lead b#1 6
			5 alive a#1
			5 alive b#1`,
		"a leader that was frozen when it should have said that it leads": `
			0 boot a#1
			0 boot b#1
			1 freeze a#1
			30 lead b#1 6
			40 thaw a#1
			40.2 lead a#1 5
			40.4 unlead a#1 5
			60 unlead b#1 6`,
		"a leader that hears of its take when its lock has been taken away": `
			0 boot a#1
			0 boot b#1
			1 early a#1
			2 lead b#1 6
			3 lead a#1 5
			4 unlead a#1 5
			60 unlead b#1 6`,
		"epochs of a Consul that was restored": `
			0 boot a#1
			0 boot b#1
			1 lead a#1 500
			2 restored - 10s
			3 lead a#1 501
			4 unlead a#1 501
			5 lead b#1 20
			9 lead b#1 30
			13 lead b#1 31
			20 unlead b#1 31
			21 lead a#1 40`,
	})
}

func TestSkewForgivesLeadersWhatTheClocksMayHaveMadeUp(t *testing.T) {
	for name, text := range map[string]string{
		"the epoch": `
			0 boot a#1
			0 boot b#1
			1 lead b#1 6
			1.04 lead a#1 5
			1.04 unlead a#1 5
			9 unlead b#1 6`,
		"the end, which is said": `
			0 boot a#1
			0 boot b#1
			1 lead a#1 5
			2 lead b#1 6
			2.04 unlead a#1 5`,
		"the end, which is not": `
			0 boot a#1
			0 boot b#1
			1 lead a#1 5
			2 lead b#1 6
			2.04 alive a#1`,
	} {
		for skew, want := range map[time.Duration]bool{0: true, 39 * time.Millisecond: true,
			40 * time.Millisecond: false} {
			if r := history.Check(read(t, text), history.Options{Skew: skew}); len(
				r.Breaches) > 0 != want {
				t.Errorf("%s, skew %v: %v", name, skew, r)
			}
		}
	}
}
