//go:build unix

package guard

// claim is what becomes of the processes that a guard process has left.
type claim int

const (
	none      claim = iota // they are left alone: it lives, or it cannot be told
	bystander              // they are killed, and nobody waits for their end
	kept                   // they are killed; the owner of this guard process waits for their end
	awaited                // they are killed, and nothing is said before they are gone
)

// claimDead claims what dead guards have left.
func claimDead(token string) claim {
	if tokenDead(token) {
		return awaited
	}
	return none
}
