// Package testkit is what tests in all folders share: waiting for a condition in real time, and
// processes that do not outlive their test. Only tests and what serves them import it.
package testkit
