package configstore

import (
	"testing"
	"time"
)

// A log that is made anew holds refused writes that are not in the file yet, and what a write that
// waits is based on. The former must not have the latter forgotten.
func TestACompactLogKeepsWhatAWriteIsBasedOnBesideARefusedOne(t *testing.T) {
	l, r := newJobQueue(9, 1<<20), &refusals{}
	write := func(key string, after uint64) *job {
		j := &job{seq: l.next, taken: time.Now(), logged: true,
			ops: []Op{{key: key, value: []byte("v"), after: after}}}
		l.push(j)
		return j
	}
	refused, earlier := write("refused", 0), write("k", 0)
	write("k", earlier.seq)
	l.finish(refused.seq, nil)
	r.unsaved = append(r.unsaved, unsavedRefusal{job: refused, why: "another came first"})
	l.finish(earlier.seq, map[string]uint64{"k": 77})
	replayed, unsaved := newJobQueue(9, 1<<20), &refusals{}
	if _, err := replayLog(compactLog(firstRecord("m1", "demo"), l, r), "demo", replayed,
		unsaved); err != nil {
		t.Fatal(err)
	}
	if len(unsaved.unsaved) != 1 {
		t.Errorf("%d refused writes, not 1", len(unsaved.unsaved))
	}
	if j := replayed.head(); j == nil || j.ops[0].base != 77 || j.ops[0].baseRefused {
		t.Errorf("the write that waits: %+v", j)
	}
}
