//go:build unix

package output

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// quiet is a stream without a pipe.
func quiet(c *Copier, item string, to sink) *stream {
	return &stream{source: source{item: item, stream: 1}, run: &Run{copier: c}, sink: to,
		rate: c.rates.use(item)}
}

func (s *stream) hear(text string, now time.Time) {
	s.turn(func(t *turn) { s.take(t, []byte(text), now) })
}

func TestAnItemHasItsRateAndABurst(t *testing.T) {
	c, now, to := &Copier{rates: newRates(5), above: losses{report: func(Loss) {}}},
		time.Unix(1000, 0), newCollector()
	defer c.above.close()
	s := quiet(c, "w1", to)
	s.hear(strings.Repeat("a\n", 1000), now)
	if n := strings.Count(to.text.String(), "a\n"); n != 5*BurstSeconds {
		t.Errorf("%d lines passed at once, want %d", n, 5*BurstSeconds)
	}
	to.text.Reset()
	s.hear(strings.Repeat("b\n", 1000), now.Add(2*time.Second))
	if n := strings.Count(to.text.String(), "b\n"); n != 10 {
		t.Errorf("%d lines passed after 2 s, want 10", n)
	}
	// its command has ended, and starts anew
	c.rates.release("w1", now)
	to.text.Reset()
	again := quiet(c, "w1", to)
	again.hear("c\nc\n", now.Add(2*time.Second))
	if to.text.Len() > 0 {
		t.Errorf("a command that starts anew has a burst of its own: %q", to.text.String())
	}
	quiet(c, "w2", to).hear("d\n", now.Add(2*time.Second))
	if to.text.String() != "d\n" {
		t.Errorf("another item got %q", to.text.String())
	}
}

func TestWhatIsDroppedIsSaidOnceAPeriod(t *testing.T) {
	var told []Loss
	c, now, to := &Copier{rates: newRates(1), above: losses{report: func(l Loss) {
		told = append(told, l)
	}}}, time.Unix(1000, 0), newCollector()
	s := quiet(c, "w1", to)
	for range 30 { // seconds, with 11 lines each
		s.hear(strings.Repeat("a\n", 11), now)
		now = now.Add(time.Second)
	}
	s.turn(func(t *turn) { s.finish(t, now) })
	said := to.text.String()
	passed, dropped := strings.Count(said, "a\n"), 0
	var notes []string
	for line := range strings.Lines(said) {
		var n, limit int
		if _, err := fmt.Sscanf(line, "coordd: %d lines dropped: above %d a second", &n,
			&limit); err == nil {
			notes = append(notes, line)
			dropped += n
		}
	}
	c.above.close()
	if len(told) != 2 || told[0].Lines+told[1].Lines != dropped || told[0].Err+told[1].Err != "" {
		t.Errorf("the owner was told %+v of %d lines", told, dropped)
	}
	if passed+dropped != 30*11 || len(notes) != 3 {
		t.Errorf("%d lines passed and %d dropped of %d, said as %q; want three notes", passed,
			dropped, 30*11, notes)
	}
}

func TestWhatCouldNotBeWrittenIsSaidInItsPlace(t *testing.T) {
	to, now := newCollector(), time.Unix(1000, 0)
	f := start(t, Config{To: Prefix}, nil, nil)
	s := quiet(f.Copier, "w1", to)
	s.hear("a\n", now)
	to.err = errors.New("no space")
	s.hear("b\nc\n", now)
	s.turn(func(t *turn) { s.say(t, now) })
	to.err = nil
	s.due = now // a note is due
	s.hear("d\n", now)
	want := "a\ncoordd: 2 lines lost: no space\nd\n"
	if to.text.String() != want {
		t.Errorf("got %q, want %q", to.text.String(), want)
	}
	if l := f.losses(); len(l) != 1 || l[0] != (Loss{2, "w1", "no space"}) {
		t.Errorf("the owner was told %+v", l)
	}
}

func TestLossesAreReportedOnceAPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		begun := time.Now()
		l := losses{report: func(l Loss) {
			told = append(told, fmt.Sprintf("%v: %d of %s: %s", time.Since(begun), l.Lines, l.Item,
				l.Err))
		}}
		l.add("w1", 3, errors.New("full"))
		l.add("w1", 4, errors.New("full"))
		time.Sleep(time.Second)
		l.add("w2", 5, errors.New("gone"))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		l.add("w3", 6, errors.New("full"))
		l.add("w3", 1, errors.New("full"))
		l.close()
		l.add("w3", 1, errors.New("full"))
		want := "0s: 3 of w1: full, 30s: 9 of w2: gone, 2m1s: 6 of w3: full, 2m1s: 1 of w3: full"
		if got := strings.Join(told, ", "); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

func TestRatesOfItemsLongGoneAreForgotten(t *testing.T) {
	r, now := newRates(10), time.Now()
	for i := range 10_000 {
		item := fmt.Sprint("w", i)
		r.use(item).AllowN(now, 1)
		r.release(item, now)
		now = now.Add(time.Second)
	}
	if len(r.items) > minTidy {
		t.Errorf("%d are kept", len(r.items))
	}
}
