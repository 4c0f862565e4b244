//go:build !race

package electiontest

const racing = false
