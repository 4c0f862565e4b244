package linearizable_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/coordd/coordd/test/linearizable"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// access is one of a register that holds a small number: a read, or a write.
type access struct {
	write bool
	value int
}

func register(is int, a access) (int, bool) {
	if a.write {
		return a.value, true
	}
	return is, a.value == is
}

type operation = linearizable.Operation[access]

// random is a history of up to six operations, at instants of which some are the same.
func random(r *rand.Rand) (history []operation) {
	for range r.IntN(7) {
		call := r.Int64N(12)
		history = append(history, operation{Op: access{r.IntN(2) == 0, r.IntN(3)}, Call: call,
			Return: call + r.Int64N(8)})
	}
	return history
}

// explained tries each order.
func explained(left []operation, is int) bool {
	for i, o := range left {
		others := append(append([]operation{}, left[:i]...), left[i+1:]...)
		first := true
		for _, other := range others {
			first = first && other.Return >= o.Call
		}
		if next, fits := register(is, o.Op); first && fits && explained(others, next) {
			return true
		}
	}
	return len(left) == 0
}

func TestTheVerdictIsThatOfTryingEachOrder(t *testing.T) {
	counted := map[bool]int{}
	for seed := range uint64(20_000) {
		history := random(rand.New(rand.NewPCG(seed, 0)))
		order, err := linearizable.Check(history, 0, register, time.Minute)
		want := explained(history, 0)
		counted[want]++
		if (err == nil) != want || want != (len(order) == len(history)) ||
			err != nil && !errors.Is(err, linearizable.ErrNone) {
			t.Fatalf("seed %d: %v (%v), want %v: %v", seed, err, order, want, history)
		}
		is := 0
		for _, a := range order {
			var fits bool
			if is, fits = register(is, a); !fits {
				t.Fatalf("seed %d: the order %v makes no sense", seed, order)
			}
		}
	}
	if counted[true] < 1000 || counted[false] < 1000 {
		t.Errorf("verdicts: %v", counted)
	}
}

func TestASearchThatTakesTooLongHasNoVerdict(t *testing.T) {
	if _, err := linearizable.Check([]operation{{Op: access{write: true}}}, 0, register,
		0); !errors.Is(err, linearizable.ErrLimit) {
		t.Error(err)
	}
}
