package configstore

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/wal"
)

// A log that is made anew holds refused writes that are not in the file yet, and what a write that
// waits is based on. The former must not have the latter forgotten.
func TestACompactLogKeepsWhatAWriteIsBasedOnBesideARefusedOne(t *testing.T) {
	empty := func() *outboxState {
		return &outboxState{queue: newQueue(9, 1<<20),
			first: record{Version: recordVersion, ID: "x", Service: "demo"}}
	}
	b := empty()
	write := func(key string, after uint64) *job {
		j := &job{number: b.queue.next, taken: time.Now(), logged: true,
			ops: []Op{{key: key, value: []byte("v"), after: after}}}
		b.queue.push(j)
		return j
	}
	refused, earlier := write("refused", 0), write("k", 0)
	write("k", earlier.number)
	refused.refused = "another came first"
	b.queue.finish(earlier, map[string]uint64{"k": 77}, 0)
	dir := t.TempDir()
	log, _, err := wal.Open(dir, wal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	replayed := empty()
	replayed.wal, replayed.conflicts = log, filepath.Join(dir, "conflicts")
	replayed.sync = (*os.File).Sync
	if err := replayed.replay(b.compact(), "demo"); err != nil {
		t.Fatal(err)
	}
	if replayed.refused != 1 {
		t.Errorf("%d refused writes, not 1", replayed.refused)
	}
	if j := replayed.queue.head(""); j == nil || j.ops[0].base != 77 || j.ops[0].lost {
		t.Errorf("the write that waits: %+v", j)
	}
}
