// Package bench_test holds the benchmarks that compare coordd with what one would use instead. The
// two sides of a comparison run in turns within one process and the ratios are medians over the
// rounds: absolute times depend on the machine and on what else runs there, these much less. On a
// machine that is busy otherwise, the longer side is interrupted more often; the ratio of the
// fastest rounds (-best) leaves that out, and times are those of the fastest rounds.
package bench_test

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/placement"
)

// vnodes is how many points each member has on the ring.
const vnodes = 128

// ring is consistent hashing with virtual nodes, written to be fast: a point is one word, the hash
// in the upper bits and the member in the lower 20, so that the points sort and search as plain
// integers.
type ring struct {
	seed   maphash.Seed
	points []uint64
}

const memberBits = 20

func newRing(seed maphash.Seed, members []placement.Member) *ring {
	r := &ring{seed: seed, points: make([]uint64, 0, vnodes*len(members))}
	for j := range members {
		r.points = r.appendPoints(r.points, members[j].ID, j)
	}
	slices.Sort(r.points)
	return r
}

func (r *ring) appendPoints(points []uint64, id string, j int) []uint64 {
	h := maphash.String(r.seed, id)
	for range vnodes {
		// splitmix64: a good hash of the member's hash and the point's number, for a few
		// multiplications.
		h += 0x9e3779b97f4a7c15
		x := h
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		points = append(points, (x^x>>31)>>memberBits<<memberBits|uint64(j))
	}
	return points
}

// without returns the ring without member j; the members behind it keep their numbers.
func (r *ring) without(j int) *ring {
	out := &ring{seed: r.seed, points: make([]uint64, 0, len(r.points))}
	for _, p := range r.points {
		if int(p&(1<<memberBits-1)) != j {
			out.points = append(out.points, p)
		}
	}
	return out
}

// with returns the ring with one more member: its points are sorted alone, then merged.
func (r *ring) with(id string, j int) *ring {
	add := r.appendPoints(nil, id, j)
	slices.Sort(add)
	out := &ring{seed: r.seed, points: make([]uint64, 0, len(r.points)+len(add))}
	old := r.points
	for _, p := range add {
		k, _ := slices.BinarySearch(old, p)
		out.points = append(append(out.points, old[:k]...), p)
		old = old[k:]
	}
	out.points = append(out.points, old...)
	return out
}

// plan looks every item up and lists those that are elsewhere: a ring knows no other way to find
// them. It is told how many there will be, and so spared the growing of the list.
func (r *ring) plan(items []placement.Item, expected int) []placement.Move {
	moves := make([]placement.Move, 0, expected)
	points := r.points
	for i := range items {
		h := maphash.String(r.seed, items[i].ID)
		lo, hi := 0, len(points)
		for lo < hi {
			mid := int(uint(lo+hi) >> 1)
			if points[mid] < h {
				lo = mid + 1
			} else {
				hi = mid
			}
		}
		if lo == len(points) {
			lo = 0
		}
		if j := placement.At(int(points[lo] & (1<<memberBits - 1))); j != items[i].Owner {
			moves = append(moves, placement.Move{Item: int32(i), From: items[i].Owner, To: j})
		}
	}
	return moves
}

func cluster(m, n int) ([]placement.Member, []placement.Item) {
	members := make([]placement.Member, m)
	for j := range members {
		members[j].ID = fmt.Sprintf("member-%06d", j)
	}
	items := make([]placement.Item, n)
	for i := range items {
		items[i] = placement.Item{ID: fmt.Sprintf("item-%09d", i), Weight: 1}
	}
	return members, items
}

// moved returns the items as they are after the moves.
func moved(items []placement.Item, moves []placement.Move) []placement.Item {
	out := slices.Clone(items)
	for _, mv := range moves {
		out[mv.Item].Owner = mv.To
	}
	return out
}

// orphaned returns the items with those of member j free.
func orphaned(items []placement.Item, j int) (out []placement.Item, orphans int) {
	out = slices.Clone(items)
	for i := range out {
		if out[i].Owner == placement.At(j) {
			out[i].Owner = placement.None
			orphans++
		}
	}
	return out, orphans
}

func spread(members []placement.Member, items []placement.Item, but int) uint64 {
	loads := make([]uint64, len(members))
	for i := range items {
		loads[items[i].Owner.Member()]++
	}
	if but >= 0 {
		loads = slices.Delete(loads, but, but+1)
	}
	return slices.Max(loads) - slices.Min(loads)
}

// contest is one question put to both sides. The planner is told of a member that has left by
// draining it, as indices have to stay; it holds nothing any more, so this is the same as its
// absence.
type contest struct {
	name          string
	members       []placement.Member
	planned, rung []placement.Item // who holds what before: each side's own
	ring          func() *ring     // timed: what the ring has to do before it can look items up
	minimum       int              // moves that no plan can do without
	gone          int              // member that has left, or -1
}

func contests(m, n int) []contest {
	const leaver = 17
	members, items := cluster(m, n)
	seed := maphash.MakeSeed()
	base := newRing(seed, members)
	planned := moved(items, placement.Compute(members, items).Moves)
	rung := moved(items, base.plan(items, n))

	left := slices.Clone(members)
	left[leaver].Drain = true
	plannedLeft, orphans := orphaned(planned, leaver)
	rungLeft, _ := orphaned(rung, leaver)
	joined := append(slices.Clone(members), placement.Member{ID: "member-joiner"})

	// The planner gives neighbours to one member and is fastest on what it has planned itself. In
	// the scattered contests its items are spread as if at random, the worst it can find; the
	// ring's are where the ring puts them.
	scattered := slices.Clone(planned)
	r := rand.New(rand.NewPCG(1, 2))
	r.Shuffle(n, func(a, b int) {
		scattered[a].Owner, scattered[b].Owner = scattered[b].Owner, scattered[a].Owner
	})
	scatteredLeft, scatteredOrphans := orphaned(scattered, leaver)
	without := func() *ring { return base.without(leaver) }
	with := func() *ring { return base.with("member-joiner", m) }
	same := func() *ring { return base }

	return []contest{
		{"first", members, items, items, func() *ring { return newRing(seed, members) }, n, -1},
		{"leave", left, plannedLeft, rungLeft, without, orphans, leaver},
		{"join", joined, planned, rung, with, n / (m + 1), -1},
		{"unchanged", members, planned, rung, same, 0, -1},
		{"leave-scattered", left, scatteredLeft, rungLeft, without, scatteredOrphans, leaver},
		{"join-scattered", joined, scattered, rung, with, n / (m + 1), -1},
		{"unchanged-scattered", members, scattered, rung, same, 0, -1},
	}
}

// rounds is how often at least the two sides take turns.
const rounds = 15

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

// BenchmarkPlanner compares the planner with a hash ring of 128 points per member at 100,000 items
// on 1000 members. On a leave and a join the ring is not built anew, only the points of one member
// are taken out or merged in.
func BenchmarkPlanner(b *testing.B) {
	for _, c := range contests(1000, 100_000) {
		b.Run(c.name, func(b *testing.B) {
			var ratios, ours, theirs []float64
			var plan placement.Outcome
			var ringMoves []placement.Move
			planner := func() {
				start := time.Now()
				plan = placement.Compute(c.members, c.planned)
				ours = append(ours, float64(time.Since(start)))
			}
			hashRing := func() {
				start := time.Now()
				ringMoves = c.ring().plan(c.rung, c.minimum)
				theirs = append(theirs, float64(time.Since(start)))
			}
			for k := range max(b.N, rounds) {
				runtime.GC() // neither side pays for what the other left behind
				if k%2 == 0 {
					planner()
					hashRing()
				} else {
					hashRing()
					planner()
				}
				ratios = append(ratios, theirs[k]/ours[k])
			}
			planned, rung := moved(c.planned, plan.Moves), moved(c.rung, ringMoves)
			if got := spread(c.members, planned, c.gone); got > 1 || len(plan.Moves) != c.minimum {
				b.Errorf("%d moves where %d are the minimum, spread %d", len(plan.Moves), c.minimum,
					got)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(ratios), "ring/planner")
			b.ReportMetric(slices.Min(theirs)/slices.Min(ours), "ring/planner-best")
			b.ReportMetric(slices.Min(ours)/1e3, "planner-µs")
			b.ReportMetric(slices.Min(theirs)/1e3, "ring-µs")
			b.ReportMetric(float64(len(plan.Moves)), "moves")
			b.ReportMetric(float64(len(ringMoves)), "ring-moves")
			b.ReportMetric(float64(spread(c.members, planned, c.gone)), "spread")
			b.ReportMetric(float64(spread(c.members, rung, c.gone)), "ring-spread")
		})
	}
}

// BenchmarkPlannerLinear compares the time per item at 1,000,000 items with that at 100,000: 1.0 is
// linear.
func BenchmarkPlannerLinear(b *testing.B) {
	small, large := contests(1000, 100_000), contests(1000, 1_000_000)
	for q := range small {
		b.Run(small[q].name, func(b *testing.B) {
			perItem := func(c contest) float64 {
				start := time.Now()
				placement.Compute(c.members, c.planned)
				return float64(time.Since(start)) / float64(len(c.planned))
			}
			var ratios, at100k, at1M []float64
			for range max(b.N, rounds) {
				s, l := perItem(small[q]), perItem(large[q])
				at100k, at1M, ratios = append(at100k, s), append(at1M, l), append(ratios, l/s)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(ratios), "per-item-1M/100k")
			b.ReportMetric(slices.Min(at1M)/slices.Min(at100k), "per-item-1M/100k-best")
			b.ReportMetric(slices.Min(at100k), "ns/item-100k")
			b.ReportMetric(slices.Min(at1M), "ns/item-1M")
		})
	}
}

// BenchmarkPlannerWeighted gives the time of plans for items of different weights. There is no
// other side to compare with: a ring knows no weights of items.
func BenchmarkPlannerWeighted(b *testing.B) {
	const m, n = 1000, 100_000
	members, items := cluster(m, n)
	for i := range items {
		items[i].Weight = uint64(1 + i*7919%100)
	}
	placed := moved(items, placement.Compute(members, items).Moves)
	left := slices.Clone(members)
	left[17].Drain = true
	plannedLeft, _ := orphaned(placed, 17)
	for _, c := range []contest{
		{name: "first", members: members, planned: items},
		{name: "leave", members: left, planned: plannedLeft},
		{name: "join", members: append(slices.Clone(members),
			placement.Member{ID: "member-joiner"}), planned: placed},
		{name: "unchanged", members: members, planned: placed},
	} {
		b.Run(c.name, func(b *testing.B) {
			var plan placement.Outcome
			for b.Loop() {
				plan = placement.Compute(c.members, c.planned)
			}
			b.ReportMetric(float64(len(plan.Moves)), "moves")
		})
	}
}

// BenchmarkPlannerPreferences compares plans for members in three zones, for items in groups of
// three there, and for a rollout, with plans for the same members and items without these.
func BenchmarkPlannerPreferences(b *testing.B) {
	zones := func(m []placement.Member) {
		for j := range m {
			m[j].Zone = fmt.Sprintf("zone-%d", j%3)
		}
	}
	for what, change := range map[string]func(m []placement.Member, items []placement.Item){
		"zones": func(m []placement.Member, _ []placement.Item) { zones(m) },
		"groups": func(m []placement.Member, items []placement.Item) {
			zones(m)
			for i := range items {
				items[i].ID = fmt.Sprintf("group-%09d:%d", i/3, i%3)
			}
		},
		"rollout": func(m []placement.Member, _ []placement.Item) {
			for j := range m[:len(m)/2] {
				m[j].Newest = true
			}
		},
	} {
		for _, c := range contests(1000, 100_000)[:4] {
			b.Run(what+"/"+c.name, func(b *testing.B) {
				members, items := slices.Clone(c.members), slices.Clone(c.planned)
				change(members, items)
				took := func(members []placement.Member, items []placement.Item) float64 {
					runtime.GC()
					start := time.Now()
					placement.Compute(members, items)
					return float64(time.Since(start))
				}
				var ratios, with, without []float64
				for range max(b.N, rounds) {
					x, y := took(members, items), took(c.members, c.planned)
					with, without, ratios = append(with, x), append(without, y), append(ratios, x/y)
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(median(ratios), "with/without")
				b.ReportMetric(slices.Min(with)/1e3, "with-µs")
				b.ReportMetric(slices.Min(without)/1e3, "without-µs")
			})
		}
	}
}
