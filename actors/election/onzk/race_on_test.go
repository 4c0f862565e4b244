//go:build race

package onzk_test

// racing: with credentials ZooKeeper's client (v1.0.4) reads its newest zxid for its watches while
// the answer to the credentials raises it, without a lock. Every node is read anew then, so nothing
// rests on it.
const racing = true
