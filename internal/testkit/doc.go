// Package testkit is what tests in all folders share: waiting for a condition in real time,
// random inputs, processes that do not outlive their test, what they write, and the judge of work
// on items. Only tests and what serves them import it.
package testkit
