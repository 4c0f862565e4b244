package actors_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"runtime/pprof"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/devconsul"
)

// liar answers requests as its script says: truly, or with something else. A
// request that it answers falsely may have reached Consul or not.
type liar struct {
	to     http.RoundTripper
	script []byte

	mu     sync.Mutex
	at     int
	honest bool
	last   []byte                   // body of the last true answer, whatever it was about
	asked  map[int64]map[string]int // requests of each second, by who asked for what
}

func (l *liar) next() byte {
	if len(l.script) == 0 {
		return 0
	}
	b := l.script[l.at%len(l.script)]
	l.at++
	return b
}

var lies = [...]string{"", "null", "[]", "{}", "true", "false", "[null]", `"x"`,
	"<html>log in</html>", `{"Results":null,"Errors":null}`, `{"Results":[],"Errors":[]}`,
	`{"Results":null,"Errors":[{"OpIndex":0,"What":"index is stale"}]}`,
	`{"Results":null,"Errors":[{"OpIndex":1,"What":"invalid session"}]}`,
	`[{"Key":"service/demo/","Value":null}]`, `{"ID":""}`,
	`{"ID":"00000000-0000-0000-0000-000000000000"}`}

var statuses = [...]int{200, 200, 200, 409, 404, 500, 503, 429, 403, 400, 301, 204, 0, 999}

var indexes = [...]string{"", "0", "1", "2", "x", "-1", "18446744073709551615",
	"99999999999999999999"}

func (l *liar) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(time.Millisecond) // no answer takes no time: so a member that spins is seen to
	l.mu.Lock()
	second := time.Now().Unix()
	if l.asked[second] == nil {
		l.asked[second] = map[string]int{}
	}
	label, _ := pprof.Label(r.Context(), "actor")
	l.asked[second][path.Base(label)+": "+r.Method+" "+r.URL.Path]++
	if l.honest || l.next() < 96 {
		l.mu.Unlock()
		return l.truly(r)
	}
	how, what, status, index := l.next(), l.next(), l.next(), l.next()
	body := []byte(lies[int(what)%len(lies)])
	from := l.at % max(1, len(l.script))
	last := l.last
	l.mu.Unlock()
	header := http.Header{"X-Consul-Knownleader": {"true"},
		"X-Consul-Index": {indexes[int(index)%len(indexes)]}, "Content-Type": {"application/json"}}
	switch how % 6 {
	case 0: // without asking Consul
	case 1: // Consul did it, and the answer is another
		if resp, err := l.truly(r); err == nil {
			resp.Body.Close()
		}
	case 2: // the true answer cut short
		resp, err := l.truly(r)
		if err != nil {
			return nil, err
		}
		body, _ = io.ReadAll(resp.Body)
		resp.Body = io.NopCloser(bytes.NewReader(body[:len(body)*int(what)/256]))
		return resp, nil
	case 3: // the true answer with another status and headers
		resp, err := l.truly(r)
		if err != nil {
			return nil, err
		}
		resp.StatusCode = statuses[int(status)%len(statuses)]
		if index < 128 {
			resp.Header = header
		}
		return resp, nil
	case 4: // an answer to another question
		body = last
	case 5: // noise
		body = l.script[from:]
	}
	code := statuses[int(status)%len(statuses)]
	return &http.Response{StatusCode: code, Status: strconv.Itoa(code), Header: header, Request: r,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body))}, nil
}

func (l *liar) truly(r *http.Request) (*http.Response, error) {
	resp, err := l.to.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	l.mu.Lock()
	l.last = body
	l.mu.Unlock()
	return resp, err
}

// FuzzAnswers: a member that gets any answers, true ones and others, for a minute:
// nothing panics or spins, no work is started for which Consul holds no key, and
// when the answers are true again everything runs.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte{})
	for i := range 24 { // each way to lie, with each of the bodies and states somewhere
		if raceDetector && i%4 != 0 {
			continue
		}
		script := []byte{}
		for j := range 60 {
			script = append(script, byte(i*37+j*61), byte(i+j), byte(j*7+i), byte(i*5+j*3),
				byte(i+j*11))
		}
		f.Add(script)
	}
	for i := range 6 {
		f.Add([]byte{255, byte(i), 1, 0, 6, 0, 0, 0})
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		run(t, func(c *cluster) {
			c.denied = true
			c.addWork(c.items(4)...)
			l := &liar{to: c.consul.RoundTripper(), script: script,
				asked: map[int64]map[string]int{}}
			m := c.start("n1", func(cfg *actors.Config) {
				cfg.Client = devconsul.ClientOver(l)
				work := cfg.Work
				cfg.Work = func(ctx context.Context, item actors.Item) error {
					key := c.store.Keys().Assignment("n1", item.ID)
					if e, found, _, err := c.store.Get(ctx, key, 0); err == nil && !found {
						t.Errorf("%s was started, and Consul holds no key for it (%v)", item.ID, e)
					}
					return work(ctx, item)
				}
			})
			time.Sleep(20 * time.Second)
			c.addWork("later")
			time.Sleep(40 * time.Second)
			l.mu.Lock()
			l.honest = true
			asked := maps.Clone(l.asked)
			l.mu.Unlock()
			for _, calls := range asked {
				if n := sum(calls); n > 400 {
					t.Errorf("%d requests in one second: %v", n, calls)
				}
			}
			select {
			case <-m.done:
				// An answer may say that a setting cannot be, or that the id is taken.
				if m.err == nil {
					t.Error("Run returned nil, and nobody had told it to stop")
				}
				delete(c.members, "n1")
				return
			default:
			}
			defer func() {
				if t.Failed() {
					t.Logf("session %+v\nmembership %+v\nleadership %+v\nassignments "+
						"%+v\nholdings %+v\nplan %+v",
						m.c.Session().Get(), m.c.Membership().Get(), m.c.Leadership().Get(),
						m.c.Assignments().Get(), m.c.Holdings().Get(), m.c.Distribution().Get())
				}
			}()
			// A poll that began before may be answered falsely a minute later still, and an index
			// that is too high costs another minute: so long Consul lets a poll of it wait.
			c.await("all items running", 3*time.Minute, func() bool {
				return fmt.Sprint(c.loads()) == "map[n1:5]"
			})
		})
	})
}
