package facts

// Runs is how many runs of its work one grant of an item has tokens for. Ten thousand of them keep
// the tokens of a Consul of 900,000,000,000 writes below 2^53, which JSON readers need.
const Runs = 10_000

// Token is the fencing token of the run of that number, from 1, under a grant: the grant's number
// with four more digits.
func Token(grant, run uint64) uint64 { return grant*Runs + run }
