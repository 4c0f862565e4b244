package simulation_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/internal/devconsul"
)

// Large payloads and thin lines. What a member reads and writes takes its time by its size, and all
// that is under way shares the member's line, in parts of a few packets. The workload may take
// longer to read than a call has, and so may the payloads of a few items.

// maxPayload is the largest payload that there can be.
const maxPayload = operator.MaxPayload

// load draws payloads and lines, by dice of its own. The thinnest line is twice as wide as the one
// on which the store gives up: a leader reads the workload and payloads of its own at once.
func (p *plan) load() {
	if p.profile != "laden" {
		return
	}
	r := rand.New(rand.NewPCG(p.seed, 11))
	p.items = 5 + r.IntN(6)
	p.settings.payload = maxPayload - r.IntN(100<<10)
	p.settings.line = 256<<10 + r.IntN(r.IntN(1<<20)+1)
	p.settings.config = ""
}

// payload is an item's payload: of every other item a large one, if there are any.
func (w *world) payload(id string) []byte {
	text := "payload of " + id
	if n := w.plan.settings.payload; n > 0 && hash(fmt.Sprint(id, w.plan.seed))%2 == 0 {
		return []byte(text + strings.Repeat(".", n-len(text)))
	}
	return []byte(text)
}

// delivered wants an item's payload to be the one that was written.
func (w *world) delivered(item actors.Item) {
	if want := w.payload(item.ID); strings.HasPrefix(item.ID, "w") &&
		string(want) != strings.TrimSuffix(string(item.Payload), asOf+change(item.Payload)) {
		w.fail("I4: %s starts with a payload of %d bytes, and %d were written", item.ID,
			len(item.Payload), len(want))
	}
}

// transfers is how much longer it may take over thin lines until all is well again: a reading of
// the workload that has just begun and one of what has changed since, by the leader; and the
// payloads, all of which one member may have to read.
func (w *world) transfers() time.Duration {
	if w.plan.settings.line == 0 {
		return 0
	}
	all := 0
	for id := range w.work {
		all += len(w.payload(id))*4/3 + 300
	}
	return 5 * time.Duration(all) * time.Second / time.Duration(w.plan.settings.line)
}

// told is a value as the history has it: payloads are of no interest to it.
func (w *world) told(op devconsul.CommitOp) string {
	if len(op.Value) > 1000 && strings.HasPrefix(op.Key, w.root+"workload/") {
		return fmt.Sprintf("%d bytes", len(op.Value))
	}
	return string(op.Value)
}

// line is what a member has to Consul.
type line struct {
	mu   sync.Mutex
	free time.Time // when the part that was sent last has passed
}

// carry lets n bytes pass, which takes its time; an error: ctx has ended.
func (l *line) carry(ctx context.Context, n, pace int) error {
	const part = 16 << 10
	if pace == 0 {
		return nil
	}
	for ; n > 0; n -= part {
		l.mu.Lock()
		if now := time.Now(); l.free.Before(now) {
			l.free = now
		}
		l.free = l.free.Add(time.Duration(min(n, part)) * time.Second / time.Duration(pace))
		d := time.Until(l.free)
		l.mu.Unlock()
		timer := time.NewTimer(d)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
	return nil
}

// thin has an answer come at the pace of the member's line.
func (l *link) thin(ctx context.Context, resp *http.Response) *http.Response {
	if l.w.plan.settings.line > 0 {
		resp.Body = &thinBody{resp.Body, l, ctx}
	}
	return resp
}

type thinBody struct {
	io.ReadCloser
	link *link
	ctx  context.Context
}

func (b *thinBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if gone := b.link.line.carry(b.ctx, n, b.link.w.plan.settings.line); gone != nil {
		return 0, gone
	}
	return n, err
}
