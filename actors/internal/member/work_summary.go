package member

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
)

// summaryInput is what a member knows of its items' work at one moment.
type summaryInput struct {
	now      time.Time
	member   facts.Membership
	view     facts.Assignments
	holdings facts.Holdings
	record   func(item string) workRecord
	stop     time.Duration        // that work has to end when it is told to stop
	since    map[string]time.Time // when the items that have not begun were seen first
	ended    protocol.LeaseEnd
}

// summarise says what the work of the assigned items does, and when time alone changes that. It
// brings in.since up to date. Sequence and time of the summary are for its writer.
func summarise(in summaryInput) (s protocol.WorkSummary, next time.Time) {
	s = protocol.WorkSummary{Session: in.member.Session, Counts: map[string]int{}, Ended: in.ended}
	waits := in.now.Before(in.member.ClearAt)
	if waits {
		s.ClearAt, next = in.member.ClearAt.UTC(), in.member.ClearAt
	}
	unbegun := map[string]bool{}
	var named []protocol.WorkReport
	for id, key := range in.view.Items.All() {
		s.Upto = max(s.Upto, key.CreateIndex)
		h, held := in.holdings.Items.Get(id)
		r := protocol.WorkReport{ID: id, State: protocol.WorkRunning}
		switch {
		case held && h.Phase == facts.Running:
			at := in.describe(&r, h, key.Restart)
			next = actor.Earliest(next, at)
		case held || key.Releasing:
			r.State, r.Since, r.Grant = protocol.WorkStopping, h.Since.UTC(), h.Grant
			if over := h.Since.Add(in.stop + stopSlack); held && h.Phase == facts.Stopping {
				if r.State = protocol.WorkStuck; in.now.Before(over) {
					r.State, next = protocol.WorkStopping, actor.Earliest(next, over)
				}
			}
		case waits && key.CreateIndex < in.member.Index:
			r.State = protocol.WorkWaiting
		default:
			r.State = protocol.WorkStarting
			unbegun[id] = true
			if in.since[id].IsZero() {
				in.since[id] = in.now
			}
			r.Since = in.since[id].UTC()
		}
		s.Counts[r.State]++
		// Of an item that waits for a predecessor all is said by its key and ClearAt.
		if r.State != protocol.WorkWaiting && (r.State != protocol.WorkRunning || r.Restarts > 0 ||
			r.Read > 0) {
			named = append(named, r)
		}
	}
	for id := range in.since {
		if !unbegun[id] {
			delete(in.since, id)
		}
	}
	s.Items = worst(named)
	return s, next
}

// Summary says what the work of the assigned items does now.
func (w *WorkRecords) Summary(now time.Time, m facts.Membership, view facts.Assignments,
	holdings facts.Holdings) protocol.WorkSummary {
	s, _ := summarise(summaryInput{now: now, member: m, view: view, holdings: holdings,
		record: w.get, stop: w.stop, since: map[string]time.Time{}, ended: w.leaseEnd()})
	return s
}

// describe fills in what the record of work that is held says. Restart is the last order to restart
// it that was passed on.
func (in summaryInput) describe(r *protocol.WorkReport, h facts.Holding,
	restart uint64) (next time.Time) {
	record := in.record(r.ID)
	r.Since, r.Grant = h.Since.UTC(), h.Grant
	if record.payload != nil {
		if r.Read = record.payload.read(); r.Read <= max(h.Grant, restart) {
			r.Read = 0 // the grant and the key say as much
		}
	}
	if record.restarts > 0 {
		r.Restarts, r.Exit, r.ExitAt = record.restarts, record.exit, record.exitAt.UTC()
		r.Since = record.exitAt.UTC()
	}
	over, calm := record.over(in.now)
	if over {
		r.Over, r.Again = true, record.again
	}
	loops, next := record.loops(in.now)
	switch {
	case loops:
		r.State, r.Since = protocol.WorkLooping, record.row.UTC()
	case record.begun.IsZero():
		r.State = protocol.WorkStarting
	case record.restarts > 0:
		r.Since, next = record.begun.UTC(), time.Time{}
	}
	if r.State == protocol.WorkRunning && record.check != "" {
		r.State, r.Check = protocol.WorkFailing, record.check
	}
	if record.begun.IsZero() {
		r.Next = record.next.UTC()
	}
	return actor.Earliest(next, calm)
}

// stopSlack is how much longer than its stop timeout work may take before it ignores its order: a
// command is killed after that.
const stopSlack = 2 * time.Second

// rank orders what is named: what is worst first.
var rank = map[string]int{protocol.WorkLooping: 0, protocol.WorkStuck: 1, protocol.WorkFailing: 2,
	protocol.WorkStarting: 3, protocol.WorkStopping: 4, protocol.WorkRunning: 5}

// rankOf puts what the leader is to take away before all else.
func rankOf(r protocol.WorkReport) int {
	if r.Over {
		return -1
	}
	return rank[r.State]
}

// over are the items of a summary that the leader is to take away.
func over(s protocol.WorkSummary) (ids []overItem) {
	for _, r := range s.Items {
		if r.Over {
			ids = append(ids, overItem{r.ID, r.Grant, r.Again})
		}
	}
	return ids
}

// overItem is one start of the work of an item that has failed too often.
type overItem struct {
	id           string
	grant, again uint64
}

// worst returns the items that a summary names.
func worst(all []protocol.WorkReport) []protocol.WorkReport {
	slices.SortStableFunc(all, func(x, y protocol.WorkReport) int {
		return cmp.Or(cmp.Compare(rankOf(x), rankOf(y)), strings.Compare(x.ID, y.ID))
	})
	const around = 250 // bytes of JSON beside the texts
	size := 0
	for i, r := range all {
		size += around + 6*(len(r.ID)+len(r.Exit))
		if i >= protocol.MaxNamed || size > protocol.MaxSummaryBytes {
			return all[:i]
		}
	}
	return all
}

// same tells whether two summaries say the same.
func same(x, y protocol.WorkSummary) bool {
	return x.Session == y.Session && x.Ended == y.Ended && x.Upto == y.Upto &&
		x.ClearAt.Equal(y.ClearAt) &&
		maps.Equal(x.Counts, y.Counts) && slices.Equal(x.Items, y.Items)
}
