package store

// Rewrite writes key, which session has locked and keeps locked. It holds when the key has this
// ModifyIndex. It is not another Lock: Consul refuses those while a lock-delay of an earlier holder
// goes on, also when the key has been locked since, and a server that is started anew replays its
// log, and begins the lock-delays in it anew.
func Rewrite(key string, value []byte, flags, index uint64, session string) []Op {
	return []Op{CheckSession(key, session), CAS(key, value, flags, index)}
}
