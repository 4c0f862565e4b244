// Package protocol holds what coordd itself writes to Consul and reads there: the names of a
// service's keys, the values in them, the transactions with which a member or a leader goes, and
// which process wrote a value. What Consul is and does is in package store; section 4 of
// docs/design.md lists the keys.
//
// A value that does not parse, or cannot be, is an error that matches [store.ErrInvalid] and names
// what is wrong. Its reader logs the key once, by [UnreadableKeys], and skips it: it stops
// nothing. What has parsed can be used in requests and in sums.
package protocol
