package history

import "time"

// SetBack tells by how much the clock of a process was set back while it wrote a history, which is
// to be as it came and not merged; 0: it was not. Line is the first of the lines behind. A process
// stamps each line when it writes it, but for those that tell of what was over before.
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
