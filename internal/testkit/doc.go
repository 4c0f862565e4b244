// Package testkit is what tests in all folders share: waiting for a condition in real time.
// Only tests import it.
package testkit
