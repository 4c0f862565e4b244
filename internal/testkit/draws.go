package testkit

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// draws is how many inputs a property is held to.
const draws = 300

// Dice draw one input.
type Dice struct {
	*rand.Rand
	seed uint64
}

// Draws holds a property to many inputs, new ones in each run. It stops at the first one that fails
// and logs its seed: with COORDD_TEST_SEED=N only that one is drawn.
func Draws(t *testing.T, property func(t *testing.T, d Dice)) {
	t.Helper()
	seed, left := rand.Uint64N(1<<40)*draws, draws
	if text := os.Getenv("COORDD_TEST_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		Must(t, err)
		seed, left = n, 1
	}
	defer func() {
		if left > 0 { // it failed, or panics
			t.Logf("the seed was %d: COORDD_TEST_SEED=%d draws this input alone", seed, seed)
		}
	}()
	for ; left > 0; left-- {
		property(t, Dice{rand.New(rand.NewPCG(seed, 0)), seed})
		if t.Failed() {
			return
		}
		seed++
	}
}

// Few draws 0 to n, and less at first, so that what fails is found with a small input if there is
// one: nothing shrinks an input afterwards.
func (d Dice) Few(n int) int { return d.IntN(1 + n*int(min(draws, 2*(d.seed%draws)))/draws) }

// Bool draws one of two.
func (d Dice) Bool() bool { return d.IntN(2) == 0 }

// Pick draws one of these.
func Pick[T any](d Dice, from ...T) T { return from[d.IntN(len(from))] }
