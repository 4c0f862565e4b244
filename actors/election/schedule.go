package election

import (
	"sort"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// MinEvery is the shortest period of a schedule.
const MinEvery = time.Second

// Schedule says when periods begin. It is the same instants on all machines. The zero value has no
// periods.
type Schedule struct {
	text  string
	every time.Duration
	cron  *cron.SpecSchedule
}

// ParseSchedule reads "@every 24h", or a line of cron: "15 3 * * *", "@daily". Periods of @every
// are counted from Monday, 1 January of year 1, 00:00 UTC: so those of 24h begin at midnight UTC.
// Times of cron are UTC, or those of the zone in front: "CRON_TZ=Europe/Berlin 15 3 * * *". Where a
// clock is put forward, a skipped time begins its period as soon as the clock has changed. Where it
// is put back, a time that comes twice counts once. Neither holds for a line whose hour is *.
func ParseSchedule(text string) (Schedule, error) {
	bad := func(format string, args ...any) (Schedule, error) {
		return Schedule{}, invalid("Schedule "+text, format, args...)
	}
	if every, ok := strings.CutPrefix(text, "@every "); ok {
		d, err := time.ParseDuration(strings.TrimSpace(every))
		if err != nil || d < MinEvery || d%time.Second != 0 {
			return bad("give a time of whole seconds, as in @every 24h")
		}
		return Schedule{text: "@every " + d.String(), every: d}, nil
	}
	zone, line, _ := strings.Cut(text, " ")
	zoned := strings.HasPrefix(zone, "CRON_TZ=") || strings.HasPrefix(zone, "TZ=")
	if !zoned {
		zone, line = "CRON_TZ=UTC", text
	}
	// The parser panics at a zone without a line. Local is not the same zone on all machines.
	if _, name, _ := strings.Cut(zone, "="); name == "" || name == "Local" ||
		strings.Contains(line, "TZ=") {
		return bad("give a time zone by its name and then a line of cron, " +
			"as in CRON_TZ=Europe/Berlin 15 3 * * *")
	}
	line = strings.Join(strings.Fields(line), " ")
	parsed, err := cron.ParseStandard(zone + " " + line)
	if err != nil {
		return bad("%v; give minute, hour, day, month and day of the week, as in 15 3 * * *", err)
	}
	s := Schedule{text: line}
	if zoned {
		s.text = zone + " " + line
	}
	if s.cron, _ = parsed.(*cron.SpecSchedule); s.cron == nil || s.cron.Next(time.Now()).IsZero() {
		return bad("it has no time within the next five years")
	}
	return s, nil
}

// String returns the schedule as ParseSchedule reads it.
func (s Schedule) String() string { return s.text }

// anyHour is how the parser marks an hour that is *.
const anyHour = uint64(1) << 63

// Next returns the beginning of the first period after t. Zero: there is none within five years.
func (s Schedule) Next(t time.Time) time.Time {
	if s.every > 0 {
		return t.UTC().Truncate(s.every).Add(s.every)
	}
	next := s.cron.Next(t)
	if s.cron.Hour&anyHour != 0 {
		return next.UTC()
	}
	for !next.IsZero() && s.repeated(next) {
		next = s.cron.Next(next)
	}
	for at := t; !next.IsZero(); {
		_, change := at.In(s.cron.Location).ZoneBounds()
		if change.IsZero() || change.After(next) {
			break
		}
		was, is := s.offsets(change)
		before := *s.cron
		before.Location = time.FixedZone("", int(was/time.Second))
		skipped := before.Next(change.Add(-time.Second))
		if !skipped.IsZero() && skipped.Before(change.Add(is-was)) {
			return change.UTC()
		}
		at = change
	}
	return next.UTC()
}

// offsets returns the offsets of local time before and after it has changed.
func (s Schedule) offsets(change time.Time) (was, is time.Duration) {
	_, before := change.Add(-time.Second).In(s.cron.Location).Zone()
	_, after := change.In(s.cron.Location).Zone()
	return time.Duration(before) * time.Second, time.Duration(after) * time.Second
}

// repeated tells whether local clocks have shown t before, until they were put back.
func (s Schedule) repeated(t time.Time) bool {
	change, _ := t.In(s.cron.Location).ZoneBounds()
	if change.IsZero() {
		return false
	}
	was, is := s.offsets(change)
	return t.Before(change.Add(was - is))
}

// lookBack is how far back the last period is looked for, in seconds.
const lookBack = 10 * 366 * 24 * 60 * 60

// Last returns the beginning of the period of t. Zero: there was none within ten years.
func (s Schedule) Last(t time.Time) time.Time {
	if s.every > 0 {
		return t.UTC().Truncate(s.every)
	}
	t = t.Truncate(time.Second)
	n := 1 + sort.Search(lookBack, func(n int) bool {
		next := s.Next(t.Add(-time.Duration(n+1) * time.Second))
		return !next.IsZero() && !next.After(t)
	})
	if n > lookBack {
		return time.Time{}
	}
	return s.Next(t.Add(-time.Duration(n) * time.Second))
}

// Missed counts the periods that have begun after since and before until, 1000 at most, and
// returns the beginning of the first one.
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
