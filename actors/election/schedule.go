package election

import (
	"errors"
	"sort"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Schedule says when periods begin. It is the same instants on all machines.
type Schedule struct {
	text  string
	every time.Duration
	cron  *cron.SpecSchedule
	zone  *time.Location // cron is read in UTC, and means what clocks show there; nil: instants
}

// anyHour is how the parser marks an hour that is *.
const anyHour = uint64(1) << 63

// ParseSchedule reads "@every 24h", or a line of cron: "15 3 * * *", "@daily". Periods of @every
// are counted from Monday, 1 January of year 1, 00:00 UTC: so those of 24h begin at midnight UTC.
// Times of cron are UTC, or those of the zone in front: "CRON_TZ=Europe/Berlin 15 3 * * *". Where a
// clock is put forward, a skipped time is taken for one that is as much earlier or later. Where it
// is put back, a time that comes twice counts once. Neither holds for a line whose hour is *.
func ParseSchedule(text string) (Schedule, error) {
	s := Schedule{text: text}
	if every, ok := strings.CutPrefix(text, "@every "); ok {
		d, err := time.ParseDuration(every)
		if s.every = d; err != nil || d < time.Second || d%time.Second != 0 {
			return s, invalid("Schedule "+text, "give a time of whole seconds, as in @every 24h")
		}
		return s, nil
	}
	name, line := "UTC", text
	if zoned, ok := strings.CutPrefix(text, "CRON_TZ="); ok {
		name, line, _ = strings.Cut(zoned, " ")
	}
	zone, err := time.LoadLocation(name)
	if err == nil {
		var parsed cron.Schedule
		parsed, err = cron.ParseStandard("CRON_TZ=UTC " + line)
		s.cron, _ = parsed.(*cron.SpecSchedule)
	}
	switch {
	case err == nil && (s.cron == nil || s.cron.Next(time.Now()).IsZero()):
		err = errors.New("it has no time within the next five years")
	case name == "Local":
		err = errors.New("Local is not the same time zone on all machines")
	}
	if err != nil {
		return s, invalid("Schedule "+text,
			"%v; give minute, hour, day, month and day of the week, as in 15 3 * * *", err)
	}
	if s.zone = zone; s.cron.Hour&anyHour != 0 {
		s.cron.Location, s.zone = zone, nil
	}
	return s, nil
}

// Next returns the beginning of the first period after t. Zero: there is none within five years.
func (s Schedule) Next(t time.Time) (next time.Time) {
	switch {
	case s.every > 0:
		return t.UTC().Truncate(s.every).Add(s.every)
	case s.zone == nil:
		return s.cron.Next(t.UTC())
	}
	// Around a change of the clocks the order of the instants may not be that of the times shown.
	const change = 3 * time.Hour
	_, offset := t.In(s.zone).Zone()
	at := s.cron.Next(t.UTC().Add(time.Duration(offset)*time.Second - change))
	for end := at; !at.IsZero() && (next.IsZero() || at.Before(end)); at = s.cron.Next(at) {
		shown := time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), 0, 0, s.zone)
		if shown.After(t) && (next.IsZero() || shown.Before(next)) {
			next, end = shown.UTC(), at.Add(change)
		}
	}
	return next
}

// Last returns the beginning of the period of t. Zero: there was none within ten years.
func (s Schedule) Last(t time.Time) time.Time {
	if s.every > 0 {
		return t.UTC().Truncate(s.every)
	}
	t = t.UTC().Truncate(time.Second)
	n := sort.Search(10*366*24*60*60, func(n int) bool {
		next := s.Next(t.Add(-time.Duration(n+1) * time.Second))
		return !next.IsZero() && !next.After(t)
	})
	if last := s.Next(t.Add(-time.Duration(n+1) * time.Second)); !last.After(t) {
		return last
	}
	return time.Time{}
}

// Missed counts the periods that have begun after since and before until, 1000 at most, and returns
// the beginning of the first one.
func (s Schedule) Missed(since, until time.Time) (n int, first time.Time) {
	if since.IsZero() {
		return 0, first
	}
	first = s.Next(since)
	for at := first; !at.IsZero() && at.Before(until) && n < 1000; at = s.Next(at) {
		n++
	}
	return n, first
}
