package configstore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/configstore"
)

// told is a write of a story, and what its caller was told.
type told struct {
	what  string
	wrote string // "key=value"; no other write has this value
	err   error
}

// A process with a log stops, is killed or dies with its machine, again and again. Consul is away
// at times, and others delete keys, or write them. Nobody is told what is not so.
func TestWhatIsToldOfAWriteIsTrueHoweverItsProcessesEnd(t *testing.T) {
	seen := map[string]int{}
	for seed := range *flagSeeds {
		run(t, func(t *testing.T, r *rig) {
			r.log = slog.New(slog.NewTextHandler(io.Discard, nil))
			all, kept := r.forgetful(rand.New(rand.NewPCG(seed, 77)), t.TempDir())
			for _, w := range all {
				kind := r.judged(w, kept)
				seen[kind]++
				if strings.HasPrefix(kind, "wrong: ") {
					t.Errorf("seed %d: %s of %s heard %v, and of it is kept: %q: %s", seed,
						w.what, w.wrote, w.err, kept[w.wrote], kind)
				}
			}
		})
	}
	t.Log(seen)
	for _, kind := range []string{"applied", "refused", "pending and applied",
		"pending and refused"} {
		if seen[kind] == 0 {
			t.Errorf("there was no write that was %s", kind)
		}
	}
}

// judged compares what was told of a write with what Consul has taken.
func (r *rig) judged(w told, kept map[string]string) string {
	times, doubtful := r.times(w.wrote), strings.Contains(kept[w.wrote], "may have been applied")
	switch {
	case times > 1:
		return "wrong: it was applied twice"
	case w.err == nil && times == 0:
		return "wrong: it was not applied"
	case times == 1 && errors.Is(w.err, configstore.ErrConflict),
		times == 1 && kept[w.wrote] != "" && !doubtful:
		return "wrong: it was applied"
	case errors.Is(w.err, configstore.ErrPending) && times == 0 && kept[w.wrote] == "":
		return "wrong: it is lost"
	case doubtful && times == 0:
		return "not applied and doubtful"
	case doubtful:
		return "applied and doubtful"
	case errors.Is(w.err, configstore.ErrPending) && times == 0:
		return "pending and refused"
	case errors.Is(w.err, configstore.ErrPending):
		return "pending and applied"
	case w.err == nil:
		return "applied"
	case errors.Is(w.err, configstore.ErrConflict):
		return "refused"
	}
	return "another"
}

// forgetful plays a story of seven processes, and returns the writes with what was told of them and
// with what is kept of them as refused.
func (r *rig) forgetful(rnd *rand.Rand, dir string) (all []told, kept map[string]string) {
	var d disk
	kept = map[string]string{}
	for life := range 6 {
		s := r.start(logged(dir), configstore.WithSync(d.sync)).ready()
		if life == 0 {
			s.put("same", "1")
			s.put("mark", "0")
		}
		away := rnd.IntN(3) > 0
		if away {
			s.net.Cut(errors.New("cut off"))
		}
		for range 1 + rnd.IntN(5) {
			if !away {
				s.faresIll(rnd)
			}
			all = append(all, s.writesSomething(rnd, fmt.Sprint("w", len(all)+1)))
			r.strangersDo(rnd, 4, 10)
		}
		if rnd.IntN(3) > 0 || life == 5 {
			if away && rnd.IntN(3) == 0 {
				s.cutOffAfterTxn(1 + rnd.IntN(8))
			}
			s.net.Cut(nil)
			time.Sleep(time.Duration(rnd.IntN(3000)) * time.Millisecond)
		}
		[]func(){s.stop, s.kill, func() { s.dies(&d) }, func() { s.dies(&d) }}[rnd.IntN(4)]()
		r.strangersDo(rnd, 2, 99)
	}
	r.start(logged(dir)).ready().settled()
	file, _ := os.ReadFile(filepath.Join(dir, "conflicts")) // there may be none
	for line := range strings.Lines(string(file)) {
		var c struct {
			Error string
			Log   struct {
				Ops []struct {
					Key   string
					Value []byte
				}
			}
		}
		must(r.t, json.Unmarshal([]byte(line), &c))
		kept[fmt.Sprintf("%s=%s", c.Log.Ops[0].Key, c.Log.Ops[0].Value)] += c.Error
	}
	return all, kept
}

// faresIll changes what becomes of the next requests.
func (h *host) faresIll(rnd *rand.Rand) {
	switch rnd.IntN(3) {
	case 0:
		h.net.Cut(errors.New("cut off"))
	case 1:
		h.net.Cut(nil)
	}
	switch rnd.IntN(4) {
	case 0:
		h.net.Next(1+rnd.IntN(3), h.net.Lose)
	case 1:
		h.cutOffAfterTxn(1 + rnd.IntN(3))
	}
}

// writesSomething makes a write of one kind or another.
func (h *host) writesSomething(rnd *rand.Rand, value string) (w told) {
	ctx := h.rig.ctx(time.Duration(rnd.IntN(1500)) * time.Millisecond)
	key, mark := "k", configstore.Set("mark", []byte(value))
	switch rnd.IntN(7) {
	case 0, 1:
		w.what = "a put"
		_, w.err = h.Put(ctx, key, []byte(value))
	case 2:
		w.what = "a create"
		_, w.err = h.CompareAndSet(ctx, key, []byte(value), 0)
	case 3, 4:
		w.what, key = "a delete", "mark"
		_, w.err = h.Txn(ctx, mark, configstore.Remove("k"))
	case 5:
		w.what, key = "a put if there is no k", "mark"
		_, w.err = h.Txn(ctx, mark, configstore.Expect("k", 0))
	case 6:
		w.what, key = "a put behind one that changes nothing", "mark"
		_, _ = h.Txn(ctx, configstore.Set("same", []byte("1")), configstore.Remove("none"))
		_, w.err = h.Txn(ctx, mark)
	}
	w.wrote = key + "=" + value
	return w
}

// strangersDo deletes a key, or writes it: each once in so many times.
func (r *rig) strangersDo(rnd *rand.Rand, deletes, writes int) {
	if rnd.IntN(deletes) == 0 {
		r.strangerDeletes("config_data/k")
	}
	if rnd.IntN(writes) == 0 {
		r.stranger("config_data/k", "theirs")
	}
}

// settled waits until nothing waits to be written.
func (h *host) settled() {
	h.rig.t.Helper()
	h.rig.await("nothing waits", time.Minute, func() bool {
		q := h.Queue().Get()
		return q.Ready && q.Waiting == 0
	})
}

// cutOffAfterTxn has the answer to the n-th of the next transactions lost, and then everything.
func (h *host) cutOffAfterTxn(n int) {
	h.net.Next(n, func(req *http.Request) (*http.Response, error) {
		defer h.net.Cut(errors.New("cut off"))
		return h.net.Lose(req)
	})
}
