package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// trackSettled notes since when all is well: each item of the workload has one owner, and the loads
// are even.
func (c *checker) trackSettled(e Event) {
	if c.calmAt == 0 || c.judged || c.closing {
		return
	}
	ok := c.unsettledReason() == ""
	if ok && !c.well {
		c.wellAt = e.At
	}
	c.well = ok
}

// unsettledReason says why not all is well at this moment. It is empty when all is well.
func (c *checker) unsettledReason() string {
	owners := map[string][]string{}
	loads := map[string]int{}
	for _, p := range c.procs {
		if p.ended || p.dead || p.frozen || p.name == "" || !c.isMember(p) {
			continue
		}
		loads[p.name] = len(p.running)
		for id := range p.running {
			owners[id] = append(owners[id], p.name)
		}
	}
	for id := range c.work {
		switch n := len(owners[id]); {
		case n == 0:
			return fmt.Sprintf("%s has no owner", id)
		case n > 1:
			slices.Sort(owners[id])
			return fmt.Sprintf("%s has the owners %s", id, strings.Join(owners[id], " and "))
		}
	}
	for id := range owners {
		if _, ok := c.work[id]; !ok {
			return fmt.Sprintf("%s is worked on and not in the workload", id)
		}
	}
	if spread := c.events[c.calmAt-1].Spread; spread >= 0 && len(loads) > 0 {
		all := slices.Collect(maps.Values(loads))
		if slices.Max(all)-slices.Min(all) > spread {
			return fmt.Sprintf("the loads are uneven: %v", loads)
		}
	}
	return ""
}

// isMember tells whether p is a process with a "boot" line. Others only wrote a key.
func (c *checker) isMember(p *process) bool { return c.events[p.first].Verb == Boot }

// judgeSettled checks I3 just before the first event after its bound.
func (c *checker) judgeSettled(now time.Time) {
	if c.calmAt == 0 || c.judged {
		return
	}
	calm := c.events[c.calmAt-1]
	if !now.After(calm.At.Add(calm.For)) {
		return
	}
	c.judged = true
	if len(c.work) == 0 && !c.hasWrite {
		c.report.Unjudged = append(c.report.Unjudged, "I3: no line says what the workload is")
		return
	}
	if why := c.unsettledReason(); why != "" {
		item, _, _ := strings.Cut(why, " ")
		at := c.calmAt - 1
		if w := c.items[item]; w != nil && len(w.spans) > 0 {
			at = min(at, w.spans[len(w.spans)-1].at)
		}
		c.breach("I3", fmt.Sprintf("%v after the faults %s", calm.For, why), at, c.calmAt-1)
		return
	}
	c.report.Settled = c.wellAt.Sub(calm.At)
}

// boundNotReached leaves I3 unjudged, because the named line comes before the bound.
func (c *checker) boundNotReached(line string) {
	if c.calmAt != 0 && !c.judged {
		c.judged = true
		c.report.Unjudged = append(c.report.Unjudged,
			"I3: "+line+" comes before the bound after a calm line")
	}
}

// finish judges what only the whole history can show.
func (c *checker) finish() {
	c.checkOneKeyPerItem()
	if n := len(c.events); n > 0 {
		c.judgeSettled(c.events[n-1].At)
		if c.calmAt != 0 && !c.judged {
			c.report.Unjudged = append(c.report.Unjudged,
				"I3: the history ends before the bound after its calm line")
		}
	}
	if c.calmAt == 0 {
		c.report.Unjudged = append(c.report.Unjudged,
			"I3: no calm line says when the faults were over")
	}
	if !c.hasWrite {
		c.report.Unjudged = append(c.report.Unjudged,
			"I2 and I4 of Consul's keys: no line tells of a write")
	}
	c.finishLeaders()
	c.finishWork()
	for _, p := range c.procs {
		if c.isMember(p) {
			c.report.Processes++
		}
	}
	c.report.Items = len(c.items)
	for _, id := range slices.Sorted(maps.Keys(c.items)) {
		c.checkOverlaps(id, c.items[id])
	}
	for _, key := range slices.Sorted(maps.Keys(c.values)) {
		v := c.values[key]
		if v.acked == 0 || !c.hasWrite {
			continue
		}
		if now, ok := c.keys[key]; !ok || slices.Index(v.tries, now) < v.acked-1 {
			c.breach("I4", fmt.Sprintf(
				"%q was acknowledged as the value of %s, which is %q at the end",
				v.tries[v.acked-1], key, now), v.at, v.at)
		}
	}
	c.finishConfigs()
}

// checkOverlaps checks I1 for the work on one item.
func (c *checker) checkOverlaps(id string, w *item) {
	for i, a := range w.spans {
		for _, b := range w.spans[i+1:] {
			if b.from.After(a.to) {
				break // the later ones begin after a's end as well
			}
			if b.proc == a.proc {
				continue
			}
			if !c.checkOverlap(id, a, b) {
				return // one breach for each item
			}
		}
	}
}

// checkOverlap judges two spans of different processes. a began before b. It returns false for a
// breach.
func (c *checker) checkOverlap(id string, a, b *span) bool {
	fenced := false
	excused := func(from, to time.Time) bool {
		if c.forgiven(from) {
			return true
		}
		late := a.proc.justThawed(from, to) && a.token < b.token
		fenced = fenced || late
		return late
	}
	tell := func(from, to time.Time) bool {
		last := max(a.at, b.at, a.stop-1)
		c.breach("I1", fmt.Sprintf("%s (token %d) and %s (token %d) both work on %s for %v",
			a.proc.name, a.token, b.proc.name, b.token, id, to.Sub(from)), a.at, last)
		return false
	}
	forgiven := false
	for _, x := range a.runningTimes() {
		for _, y := range b.runningTimes() {
			from, to := later(x.from, y.from), earlier(x.to, y.to)
			if to.Sub(from) <= c.Skew {
				continue
			}
			if !excused(from, to) {
				return tell(from, to)
			}
			forgiven = true
		}
	}
	for _, pair := range [2][2]*span{{a, b}, {b, a}} {
		for _, i := range append([]int{pair[0].at}, pair[0].steps...) {
			if now := c.events[i].At; i > pair[1].at && pair[1].goesOnAt(now, c.Skew) {
				if !excused(now, now) {
					return tell(now, earlier(pair[0].to, pair[1].to))
				}
				forgiven = true
			}
		}
	}
	switch {
	case fenced:
		c.report.Fenced++
	case forgiven:
		c.report.Forgiven++
	case earlier(a.to, b.to).Sub(later(b.from, a.known())) > c.Skew:
		c.report.Uncertain++
	}
	return true
}

// goesOnAt tells whether the span lasts for more than skew beyond now.
func (s *span) goesOnAt(now time.Time, skew time.Duration) bool {
	for _, w := range s.runningTimes() {
		if !now.Before(w.from) && w.to.Sub(now) > skew {
			return true
		}
	}
	return false
}

// runningTimes returns the parts of the span in which its process was not frozen.
func (s *span) runningTimes() []window {
	out := []window{}
	from := s.from
	for _, w := range s.proc.frozenTimes {
		if !w.to.IsZero() && w.to.Before(from) {
			continue
		}
		if w.from.After(s.known()) {
			break
		}
		if w.from.After(from) {
			out = append(out, window{from: from, to: w.from})
		}
		if from = w.to; from.IsZero() {
			return out
		}
	}
	if !from.After(s.known()) {
		out = append(out, window{from: from, to: s.known()})
	}
	return out
}

// justThawed tells whether the whole time is within [Notice] of a thaw, before the process can have
// looked at the clock.
func (p *process) justThawed(from, to time.Time) bool {
	for _, w := range p.frozenTimes {
		if !w.killed && !w.to.IsZero() && !from.Before(w.to) && !to.After(w.to.Add(Notice)) {
			return true
		}
	}
	return false
}

// breach notes a broken rule with the lines that show it, from first to last.
func (c *checker) breach(rule, text string, first, last int) {
	b := Breach{Rule: rule, Text: text}
	items, procs := map[string]bool{}, map[string]bool{}
	for _, i := range []int{first, last} {
		e := c.events[i]
		procs[e.Proc] = true
		if e.Item != "" {
			items[e.Item] = true
		} else if _, id, ok := keyItem(e.Key); ok {
			items[id] = true
		}
	}
	for i := first; i <= last; i++ {
		e := c.events[i]
		_, id, isKey := keyItem(e.Key)
		whole := e.Item == "" && e.Key == "" && e.Verb != Alive
		switch {
		case i == first, i == last, items[e.Item] && e.Item != "", isKey && items[id],
			whole && (procs[e.Proc] || e.Proc == ""), e.Key == "leader":
			b.Stretch = append(b.Stretch, e)
		}
	}
	c.report.Breaches = append(c.report.Breaches, b)
}

// keyItem returns the item of an assignment or workload key.
func keyItem(key string) (member, id string, ok bool) {
	kind, rest, _ := strings.Cut(key, "/")
	switch kind {
	case "workload":
		return "", rest, rest != ""
	case "assignments":
		member, id, ok = strings.Cut(rest, "/")
		return member, id, ok && id != ""
	}
	return "", "", false
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
