package history_test

import "testing"

func TestBrokenHistoriesOfKeysAreRejected(t *testing.T) {
	rejected(t, map[string]broken{
		"a deposed leader's write": {"I2", "write of epoch 1 at index 3, when the leader key " +
			"was at 2", `
			0 boot a#1
			1 set a#1 1 0 leader a
			2 set b#1 2 0 leader b
			3 set a#1 3 1 assignments/a/w1 own`},
		"a write of nobody's epoch": {"I2", "was deposed", `
			0 boot a#1
			1 set a#1 1 0 leader a
			2 del - 2 0 leader
			3 set a#1 3 1 assignments/a/w1 own`},
		"two keys": {"I2", "w1 has 2 keys at index 3: at a and b", `
			1 set a#1 1 0 leader a
			2 set a#1 2 1 assignments/a/w1 own
			3 set a#1 3 1 assignments/b/w1 own`},
		"two keys, at the very end": {"I2", "w1 has 2 keys at index 2", `
			1 set - 1 0 assignments/m1/w1 own
			2 set - 2 0 assignments/m10/w1 own
			2 set - 2 0 assignments/m10/w2 own`},
		"a member deletes work": {"I4", "a#1 deletes w1 from the workload", `
			0 set - 1 0 workload/w1 x
			0 boot a#1
			1 del a#1 2 0 workload/w1`},
		"an acknowledged value is gone": {"I4",
			`"two" was acknowledged as the value of /cfg, which is "one" at the end`, `
			0 try u /cfg one
			0 set u 1 0 /cfg one
			0 acked u /cfg one
			1 try u /cfg two
			1 acked u /cfg two`},
		"an acknowledged key is gone": {"I4", "was acknowledged", `
			0 try u /cfg one
			0 set u 1 0 /cfg one
			0 acked u /cfg one
			1 del - 2 0 /cfg`},
	})
}

func TestWhatIsNoBreachOfKeys(t *testing.T) {
	accepted(t, map[string]string{
		"a key moves in one write": `
			1 set a#1 1 0 leader a
			2 set a#1 2 1 assignments/a/w1 own
			3 set a#1 3 1 assignments/b/w1 own
			3 del a#1 3 1 assignments/a/w1`,
		"an unacknowledged value was written later": `
			0 try u /cfg one
			0 set u 1 0 /cfg one
			0 acked u /cfg one
			1 try u /cfg two
			2 set u 2 0 /cfg two`,
	})
}
