package actor

// StopCause says why the context of a work or a duty has ended.
type StopCause string

const (
	StopMoved       StopCause = "the item goes to another member"
	StopRemoved     StopCause = "the item was taken out of the workload"
	StopDrained     StopCause = "the member is to take no items"
	StopFailing     StopCause = "the work failed too often here"
	StopRestarted   StopCause = "a restart was ordered"
	StopChanged     StopCause = "the payload has changed"
	StopLeaseOver   StopCause = "the lease is over"
	StopSessionLost StopCause = "the session is lost"
	StopDeposed     StopCause = "the leadership is over"
	StopShutdown    StopCause = "the member stops"
)

func (c StopCause) Error() string { return string(c) }

// InterruptedError is the end of work that is no failure of its own.
type InterruptedError struct{ error }

// Unwrap returns what the work has returned.
func (e *InterruptedError) Unwrap() error { return e.error }

// Interrupted returns err as the end of work that is no failure of its own; nil stays nil.
func Interrupted(err error) error {
	if err == nil {
		return nil
	}
	return &InterruptedError{err}
}
