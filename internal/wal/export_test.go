package wal

// Encode is the file of a log to which records were appended at once.
func Encode(records ...[]byte) []byte {
	b, err := encodeRecords([]byte(fileHeader), records, int64(len(fileHeader)))
	if err != nil {
		panic(err)
	}
	return b
}

// Break makes a log such as it is after a failed fsync.
func Break(l *Log) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = ErrBroken
}
