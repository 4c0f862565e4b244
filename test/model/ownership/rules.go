package ownership

// rule is what is done instead of one of design.md's rules.
type rule int

const (
	noLease rule = iota
	leaseFromReply
	renewalUnconfirmed
	startUnchecked
	staleView
	notAddressed
	tokenOfKeyAlone
	releasesForgotten
	releaseBeforeStop
	releaseUnregistered
	releaseAnyIndex
	acksUnconditional
	inheritedStartedEarly
	inheritedReleasedEarly
	clearNotChained
	ownTTLOnly
	waitNotedLater
	registerOverLiving
	registerAnyAck
	joinWithoutSequence
	goodbyeUnchecked
	goodbyeNotClear
	goodbyeBeforeStop
	goodbyeForFrozen
	stoppedBeforeTheWork
	restCutShort
	noGuard
	noNewEpoch
	leaderWithoutSequence
	refusalNotFinal
	partialRead
	noReceiverCheck
	noCreateOnly
	revokeWithoutIndex
	reapInTwoSteps
	reapWithoutRecordCheck
	reapWithoutAckCheck
	noGrace
	goneByRecordAlone
	anotherAbsence
	numRules
)

// ruleNames are those of test/simulation/mutations_test.go where it has the rule too.
var ruleNames = [numRules]string{
	noLease:                "no-lease",
	leaseFromReply:         "lease-from-reply",
	renewalUnconfirmed:     "renewal-unconfirmed",
	startUnchecked:         "start-unchecked",
	staleView:              "stale-view",
	notAddressed:           "not-addressed",
	tokenOfKeyAlone:        "token-of-key-alone",
	releasesForgotten:      "releases-forgotten",
	releaseBeforeStop:      "release-before-stop",
	releaseUnregistered:    "release-unregistered",
	releaseAnyIndex:        "release-any-index",
	acksUnconditional:      "acks-unconditional",
	inheritedStartedEarly:  "inherited-started-early",
	inheritedReleasedEarly: "inherited-released-early",
	clearNotChained:        "clear-not-chained",
	ownTTLOnly:             "own-ttl-only",
	waitNotedLater:         "wait-noted-later",
	registerOverLiving:     "register-over-living",
	registerAnyAck:         "register-any-ack",
	joinWithoutSequence:    "join-without-sequence",
	goodbyeUnchecked:       "goodbye-unchecked",
	goodbyeNotClear:        "goodbye-not-clear",
	goodbyeBeforeStop:      "goodbye-before-stop",
	goodbyeForFrozen:       "goodbye-for-frozen",
	stoppedBeforeTheWork:   "stopped-before-the-work",
	restCutShort:           "rest-cut-short",
	noGuard:                "no-guard",
	noNewEpoch:             "no-new-epoch",
	leaderWithoutSequence:  "leader-without-sequence",
	refusalNotFinal:        "refusal-not-final",
	partialRead:            "partial-read",
	noReceiverCheck:        "no-receiver-check",
	noCreateOnly:           "no-create-only",
	revokeWithoutIndex:     "revoke-without-index",
	reapInTwoSteps:         "reap-in-two-steps",
	reapWithoutRecordCheck: "reap-without-record-check",
	reapWithoutAckCheck:    "reap-without-ack-check",
	noGrace:                "no-grace",
	goneByRecordAlone:      "gone-by-record-alone",
	anotherAbsence:         "another-absence",
}
