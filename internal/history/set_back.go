package history

import "time"

// SetBack returns by how much the clock of a process was set back while it wrote a history; 0 if it
// was not. The history must be as it was written, not merged. Line is the first line with an
// earlier time. A process stamps each line when it writes it, except those about what was over
// before.
func SetBack(history []Event) (line Event, by time.Duration) {
	last := map[string]time.Time{}
	for _, e := range history {
		switch e.Verb {
		case Boot, Alive, Start, Lead, End:
		default:
			continue
		}
		if before := last[e.Proc]; e.At.Before(before) {
			return e, before.Sub(e.At)
		}
		last[e.Proc] = e.At
	}
	return Event{}, 0
}
