package election

// channelSize is how many messages wait in the channel itself; queueSize how many more are kept for
// a reader that has not come for them.
const (
	channelSize = 16
	queueSize   = 48
)

// outbox holds the messages that nobody has read yet. It never blocks, it is bounded, and what
// it drops it counts.
type outbox struct {
	out   chan Status
	queue []Status
}

func newOutbox() *outbox { return &outbox{out: make(chan Status, channelSize)} }

// roleChange tells whether s must not be folded into a newer message.
func roleChange(s Status) bool {
	return s.What == Initial || s.What == RoleChanged || s.What == Over
}

// put appends s. What only tells of the leader or of the lease gives way to a newer message of its
// kind.
func (o *outbox) put(s Status) {
	if n := len(o.queue); n > 0 && o.queue[n-1].What == s.What && !roleChange(s) {
		s.Missed = o.queue[n-1].Missed
		if s.Reason == "" {
			s.Reason = o.queue[n-1].Reason
		}
		o.queue[n-1] = s
		return
	}
	o.queue = append(o.queue, s)
	if len(o.queue) > queueSize {
		o.drop()
	}
	o.fill()
}

// fill moves what fits into the channel.
func (o *outbox) fill() {
	for len(o.queue) > 0 {
		select {
		case o.out <- o.queue[0]:
			o.queue = o.queue[1:]
		default:
			return
		}
	}
}

// next is what to send when the channel takes it: the channel is nil when there is nothing.
func (o *outbox) next() (chan<- Status, Status) {
	if len(o.queue) == 0 {
		return nil, Status{}
	}
	return o.out, o.queue[0]
}

// sent tells that next was sent.
func (o *outbox) sent() { o.queue = o.queue[1:] }

// close makes room for the last messages at the cost of the oldest unread ones, and closes the
// channel: nobody need read for it.
func (o *outbox) close() {
	var unread []Status
	for more := len(o.queue) > 0; more; {
		select {
		case s := <-o.out:
			unread = append(unread, s)
		default:
			more = false
		}
	}
	o.queue = append(unread, o.queue...)
	for len(o.queue) > channelSize {
		o.drop()
	}
	o.fill() // which has room for all of them
	close(o.out)
}

// drop forgets the oldest message of the queue. The next one counts it.
func (o *outbox) drop() {
	dropped := o.queue[0]
	o.queue = append(o.queue[:0], o.queue[1:]...)
	o.queue[0].Missed += dropped.Missed
	if roleChange(dropped) {
		o.queue[0].Missed++
	}
}
