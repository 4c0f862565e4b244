package operator

// ReasonWords are a leader's reason in words for people. An empty one is not said there.
type ReasonWords struct {
	// There says why an item is where it is.
	There string
	// Event says why something happened to an item; {from} stands for [Event.From].
	Event string
	// Plan says why a move of a plan would be made.
	Plan string
}

// WordsOf returns the words for a reason: [ItemStatus.Reason], [Event.Why] or [PlanMove.Why]. A
// later version may have reasons for which there are none here.
func WordsOf(reason string) ReasonWords { return reasonWords[reason] }

var reasonWords = map[string]ReasonWords{
	"new": {There: "nobody had it", Event: "nobody had it", Plan: "nobody runs it"},
	"balance": {There: "its former owner held more than its share", Event: "balancing the load",
		Plan: "its member has more than its share"},
	"drain": {There: "its former owner was drained", Event: "{from} is drained",
		Plan: "its member is drained or takes no work"},
	"capacity": {There: "its former owner held more than its capacity",
		Event: "{from} is over its capacity", Plan: "its member has more than its capacity"},
	"pinned": {There: "an operator pinned it elsewhere then", Event: "pinned",
		Plan: "it is pinned there"},
	"preferred": {There: "an operator preferred another member for it then", Event: "preferred there",
		Plan: "it is preferred there"},
	"failing": {There: "its work failed too often at its former owner",
		Event: "its work failed too often at {from}, and is tried elsewhere",
		Plan:  "its work failed elsewhere"},
	"quarantined": {There: "it was quarantined, for its work failed too often elsewhere",
		Event: "its work failed too often"},
	"removed": {There: "it was removed from the workload, and added again",
		Event: "no longer in the workload"},
	"unreadable": {There: "its former assignment could not be read",
		Event: "the assignment was unreadable"},
	"not-addressed": {There: "its former assignment was addressed to nobody",
		Event: "the assignment was addressed to nobody"},
	"released": {There: "its former owner gave it up", Event: "given up by {from}"},
	"left": {There: "its former owner is gone, and what it ran has ended",
		Event: "{from} is gone, and what it ran has ended"},
	"lost":      {Event: "{from} was lost"},
	"takeover":  {There: "its former owner was lost", Plan: "its member is lost"},
	"cancelled": {There: "it was to leave, and was called back", Event: "called back"},
	"elsewhere": {Event: "another member takes it"},
}
