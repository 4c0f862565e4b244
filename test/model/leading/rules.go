package leading

// rule is what is done instead of one of design.md's rules.
type rule int

const (
	noLease rule = iota
	leadAtOnce
	leadNotChained
	resignedWhileItRuns
	waitNotedLater
	restCutShort
	termUnchecked
	keyUnchecked
	numRules
)

// ruleNames are those of test/simulation/mutations_test.go where it has the rule too.
var ruleNames = [numRules]string{
	noLease: "no-lease", leadAtOnce: "lead-at-once", leadNotChained: "lead-not-chained",
	resignedWhileItRuns: "resigned-while-it-runs", waitNotedLater: "wait-noted-later",
	restCutShort:  "rest-cut-short",
	termUnchecked: "term-unchecked", keyUnchecked: "leader-key-unchecked",
}
