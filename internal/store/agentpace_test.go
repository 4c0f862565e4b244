package store

import (
	"testing"
	"time"
)

// Each step is an answer that comes after took, and what is done then. The check is one of 6.5 s.
func TestAChecksPaceIsThatOfItsAgent(t *testing.T) {
	const ms, normal, long = time.Millisecond, 6500 * time.Millisecond, 30 * time.Second
	type step struct {
		after, took time.Duration // since the answer before, and of this one
		want        time.Duration // the TTL
		next        time.Duration // from this report to the next
		most        int
	}
	for name, steps := range map[string][]step{
		"prompt from the start": {{0, ms, normal, normal / 8, 7},
			{normal / 8, ms, normal, normal / 8, 7}},
		"neither prompt nor late": {{0, 500 * ms, normal, normal / 4, 2},
			{time.Minute, 500 * ms, normal, normal / 4, 2}},
		"a little slow": {{0, 150 * ms, normal, 1200 * ms, 7}},
		"late, and then prompt": {{0, 3 * time.Second, long, long / 4, 2},
			{time.Second, ms, long, long / 8, 2},
			{19 * time.Second, ms, long, long / 8, 2}, {21 * time.Second, ms, normal, normal / 8, 7},
			{time.Second, ms, normal, normal / 8, 7}},
		"prompt no longer": {{0, 3 * time.Second, long, long / 4, 2},
			{time.Second, ms, long, long / 8, 2},
			{19 * time.Second, 500 * ms, long, 4 * time.Second, 2},
			{21 * time.Second, ms, long, long / 8, 2}},
		"late again and again": {{0, 3 * time.Second, long, long / 4, 2},
			{0, ms, long, long / 8, 2}, {40 * time.Second, ms, normal, normal / 8, 7},
			{0, time.Second, long, long / 4, 2}, {0, ms, long, long / 8, 2},
			{120 * time.Second, ms, normal, normal / 8, 7},
			{0, time.Second, long, long / 4, 2}, {0, ms, long, long / 8, 2},
			{139 * time.Second, ms, long, long / 8, 2},
			{141 * time.Second, ms, normal, normal / 8, 7},
			{11 * time.Minute, time.Second, long, long / 4, 2}, {0, ms, long, long / 8, 2},
			{40 * time.Second, ms, normal, normal / 8, 7}},
	} {
		now := time.Unix(1e9, 0)
		p := agentPace{normal: normal, long: long}
		if p.want(now) != long {
			t.Errorf("%s: the first check is one of %v", name, p.want(now))
		}
		for i, s := range steps {
			now = now.Add(s.after + s.took)
			was := p.late
			if slow := p.answered(now.Add(-s.took), now); slow != (p.late && !was) {
				t.Errorf("%s, step %d: slow: %v", name, i, slow)
			}
			if want := p.want(now); want != s.want {
				t.Errorf("%s, step %d: a check of %v, want %v", name, i, want, s.want)
			}
			if p.has != s.want {
				p.registered(s.want, now)
			}
			p.sent = p.good
			if next := p.next(now).Sub(p.sent); next != s.next || p.most() != s.most {
				t.Errorf("%s, step %d: the next after %v, %d at most; want %v, %d", name, i, next,
					p.most(), s.next, s.most)
			}
		}
		p.sent = p.good.Add(ms) // unanswered
		for sent, next := range map[time.Duration]time.Duration{ms: p.has / 24, 2 * p.has: p.has / 8} {
			if p.took = ms; p.next(p.good.Add(sent)).Sub(p.sent) != next {
				t.Errorf("%s: the next after one without an answer for %v comes after %v", name, sent,
					p.next(p.good.Add(sent)).Sub(p.sent))
			}
		}
		if p.took = 500 * ms; p.next(now).Sub(p.sent) != max(time.Second, p.has/24) {
			t.Errorf("%s: a slow agent is asked again %v later", name, p.next(now).Sub(p.sent))
		}
		p.woke = now.Add(time.Minute) // the process did not run meanwhile
		if late := p.late; p.answered(now.Add(ms), now.Add(2*time.Minute)) || p.late != late {
			t.Errorf("%s: an agent is slow because the process did not run", name)
		}
		p.took = ms
		if p.answered(now, now.Add(time.Hour)); p.took != ms {
			t.Errorf("%s: an answer that was overtaken counts", name)
		}
	}
}
