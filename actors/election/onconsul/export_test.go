package onconsul

import "context"

// BreakLoop has the loop that renews the session panic.
func (c *Conn) BreakLoop() {
	closed := make(chan struct{})
	close(closed)
	c.verifyNow <- closed // it is closed once more when Consul has answered
}

// BreakLeave has the next removal of leftovers panic, and the one after it call then.
func (c *Conn) BreakLeave(then func()) {
	panics := true
	c.later(func(context.Context) error {
		if panics {
			panics = false
			panic("left over")
		}
		then()
		return nil
	})
}
