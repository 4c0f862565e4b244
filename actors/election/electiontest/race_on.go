//go:build race

package electiontest

// racing: the race detector makes everything several times as slow, so that a thousand candidates
// on two processors would not renew their sessions in time. Without it the numbers are those of the
// scenarios.
const racing = true
