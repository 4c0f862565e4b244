package history_test

import "testing"

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
	})
}
