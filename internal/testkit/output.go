package testkit

import (
	"bytes"
	"sync"
)

// Output collects what is written to it, such as a log, while others read it. The zero value is
// ready to use.
type Output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write adds p. It never fails.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

// String is all that was written since the last Take.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// Take returns what String returns, and forgets it.
func (o *Output) Take() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.buf.Reset()
	return o.buf.String()
}
