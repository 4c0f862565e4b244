package simulation_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// link is one process's way to Consul. Each request gets its fate from the seed,
// the member and the request's number, and from what befalls the member at that moment.
type link struct {
	w *world
	p *process

	mu sync.Mutex
	n  uint64
	// reports of those requests are to a health check: they come all the time
	reports uint64
	// sent counts the requests of one second, of each kind as well.
	sent   int
	kinds  map[string]int
	second time.Time
	// cut is how the link is broken: refused, silent, one-way (what is sent arrives, no answer
	// does), deaf (only renewals pass, with their confirmation), eyes (only reads of its own
	// assignments, and of their payloads, pass), no-polls (all but long polls passes), no-members
	// (all but reads of records passes).
	cut []string
	// stray: what this member writes as the leader arrives late.
	stray bool
	// strayGoodbye: a guard's goodbye arrives late.
	strayGoodbye bool
	// strayRelease: the next release arrives then; zero: as it should.
	strayRelease time.Time
	// lateLease counts down to a renewal whose confirmation is answered late; before it is, the
	// session is ended and the link falls silent.
	lateLease int
	// renewed: Consul's answer to the last renewal was 200.
	renewed bool
	line    line
	// storms are the weathers that rage over this member.
	storms []weather
}

// limit is more requests than a member has reason for in a second of virtual time: a leader may
// have to ask after each of the others, and looks again at each release. When all leave at once it
// asks after each that has left whenever one more leaves. Of 765 runs none came to more than six
// tenths of it; twice as many let a leader through that asked after all others whenever one of
// them could not be asked.
func (l *link) limit() int {
	members := len(l.w.plan.ids)
	return 100 + 5*members + members*members/2 + 3*int(l.w.items.Load())
}

var (
	errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	errReset   = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	errDead    = errors.New("the process was killed")
)

func (l *link) RoundTrip(in *http.Request) (*http.Response, error) {
	r := &request{Request: in}
	if in.Body != nil {
		var err error
		if r.body, err = io.ReadAll(in.Body); err != nil {
			return nil, err
		}
		in.Body.Close()
		r.body = l.p.tell(in.URL.Path, r.body)
	}
	actor := actorOf(in.Context())
	l.p.hold(actor)
	l.fate(r)
	done := make(chan reply, 1)
	l.w.flying.Add(1)
	go func() {
		defer l.w.flying.Done()
		begin := time.Now()
		resp, err := l.carry(r)
		if r.hit {
			l.w.unfair(begin, time.Now(), "a request of "+l.p.name())
		}
		done <- reply{resp, err}
	}()
	select {
	case a := <-done:
		l.p.hold(actor)
		return a.resp, a.err
	case <-in.Context().Done():
	}
	l.p.hold(actor)
	select {
	case a := <-done: // it came while the actor stood still
		return a.resp, a.err
	default:
		return nil, in.Context().Err()
	}
}

// fate draws what becomes of r.
func (l *link) fate(r *request) {
	l.mu.Lock()
	l.n++
	if r.report() {
		l.reports++
	}
	r.number = l.n
	if second := time.Now().Truncate(time.Second); second != l.second {
		l.second, l.sent, l.kinds = second, 0, map[string]int{}
	}
	l.kinds[r.kind()]++
	if l.sent++; l.sent == l.limit() {
		l.w.fail("HOT: %s sent %d requests in the second of %s: %v", l.p.name(), l.sent,
			l.second.Format(time.TimeOnly), l.kinds)
	}
	over := append([]weather(nil), l.storms...)
	hot := l.n > 20*uint64(l.limit()) && l.sent > l.limit()/2
	l.mu.Unlock()
	if hot { // so that a member that never rests cannot keep the run from ending
		r.rest = time.Second
	}
	if l.w.calm.Load() {
		return
	}
	if d := l.strays(r); d > 0 {
		r.fate, r.delay = sentLate, d
		return
	}
	if l.w.plan.plays(-1) {
		over = append(over, l.w.plan.weather)
	}
	rnd := rand.New(rand.NewPCG(l.w.plan.seed, hash(l.p.name())+r.number))
	for _, w := range over {
		if rnd.Float64() >= w.rate {
			continue
		}
		r.fate = w.kinds[rnd.IntN(len(w.kinds))]
		most := 5.0
		if r.poll() || r.fate == sentLate {
			most = 60
		}
		// Short ones are as likely as long ones.
		r.delay = time.Duration(
			float64(time.Second) * most * rnd.Float64() * rnd.Float64() * rnd.Float64())
		return
	}
}

// carry takes r to Consul and its answer back, as far as they come.
func (l *link) carry(r *request) (*http.Response, error) {
	ctx := r.Context()
	// Time passes on the way: a member that asks without pause is seen to do so.
	time.Sleep(time.Duration(200+r.number%7*150)*time.Microsecond + r.rest)
	if !l.p.awake() {
		return nil, errDead
	}
	r.hit = r.fate != ""
	// Something kills the process around its next write.
	switch l.p.mortal(r) {
	case "before-write":
		l.w.kill(l.p)
		return nil, errDead
	case "after-write":
		l.twice(r)
		resp, err := l.w.deliver(context.Background(), l.p, r)
		discard(resp, err)
		l.w.kill(l.p)
		return nil, errDead
	case "write-in-flight":
		l.w.kill(l.p)
		time.Sleep(r.delay + time.Duration(r.number%7)*3*time.Second)
		discard(l.w.deliver(context.Background(), l.p, r))
		return nil, errDead
	}
	if resp, err, ok := l.lastRenewal(r); ok {
		return resp, err
	}
	switch l.broken(r) {
	case "refused":
		return nil, errRefused
	case "silent":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if err := l.line.carry(ctx, len(r.body), l.w.plan.settings.line); err != nil {
		return nil, err
	}
	if r.report() && l.w.takesNoReports() {
		r.hit = true
		return canned(r, 403, "Permission denied: token lacks permission 'service:write'"), nil
	}
	lose := false
	switch r.fate {
	case refused:
		return nil, errRefused
	case silent:
		<-ctx.Done()
		return nil, ctx.Err()
	case busy:
		return canned(r, 429,
				"Your IP is issuing too many concurrent connections, please rate limit your "+
					"calls\n"),
			nil
	case failed:
		return canned(r, 500, "No cluster leader"), nil
	case away:
		return canned(r, 503, "upstream connect error"), nil
	case denied:
		return canned(r, 403, "Permission denied: token with AccessorID 'x' lacks permission"), nil
	case sentLate:
		if !r.poll() {
			time.Sleep(r.delay)
		}
	case stale:
		if resp := l.w.lagging(r); resp != nil {
			return resp, nil
		}
	case spurious:
		if r.poll() {
			q := r.URL.Query()
			q.Del("index")
			q.Del("wait")
			u := *r.URL
			u.RawQuery = q.Encode()
			r.Request = r.Request.Clone(ctx)
			r.Request.URL = &u
		}
	case replyLost:
		lose = true
	}
	from := ctx
	if r.Method != http.MethodGet {
		from = context.WithoutCancel(ctx) // once it is under way nobody calls it back
	}
	l.twice(r)
	resp, err := l.oldRenewal(r), error(nil)
	if resp == nil {
		resp, err = l.w.deliver(from, l.p, r)
	}
	if err != nil {
		return nil, err
	}
	switch r.fate {
	case replyLate:
		time.Sleep(r.delay)
	case replyReset:
		discard(resp, nil)
		return nil, errReset
	case failedDone:
		discard(resp, nil)
		return canned(r, 500, "rpc error making call: EOF"), nil
	case garbage:
		discard(resp, nil)
		bodies := []string{"<html>hello</html>", "{}", "[]", "null", "true", "",
			"{\"Results\":null,\"Errors\":null}", "[{\"Key\":\"x\"}]"}
		return canned(r, 200, bodies[r.number%uint64(len(bodies))]), nil
	case cutShort:
		resp.Body = &shortBody{resp.Body, max(1, int(r.number%100))}
	case backward:
		if n, _ := strconv.ParseUint(resp.Header.Get("X-Consul-Index"), 10, 64); n > 0 {
			resp.Header.Set("X-Consul-Index", strconv.FormatUint(n/2, 10))
		}
	case noIndex:
		if resp.Header.Get("X-Consul-Index") != "" {
			resp.Header.Set("X-Consul-Index", "0")
		}
	}
	if !l.p.awake() {
		return nil, errDead
	}
	switch l.broken(r) {
	case "refused":
		discard(resp, nil)
		return nil, errReset
	case "silent", "one-way":
		lose = true
	}
	if lose {
		discard(resp, nil)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return l.thin(ctx, resp), nil
}

// broken is how the link is cut for r at this moment.
func (l *link) broken(r *request) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, how := range l.cut {
		passes := false
		switch how {
		case "deaf":
			passes = r.renewal() || l.confirmation(r)
		case "eyes":
			passes = strings.HasPrefix(r.URL.Path, "/v1/kv/"+l.w.root+"assignments/") &&
				r.Method == http.MethodGet ||
				// only ever read by a member
				bytes.Contains(r.body, []byte(`"Key":"`+l.w.root+"workload/"))
		case "no-members":
			passes = !strings.HasPrefix(r.URL.Path, "/v1/kv/"+l.w.root+"members/")
		case "no-polls":
			passes = !r.poll()
		default:
			r.hit = true
			return how
		}
		if !passes {
			r.hit = true
			return "silent"
		}
	}
	return ""
}

// strays tells how much later r arrives, being a leader's write, a release or a guard's goodbye
// that goes astray; 0: it does not.
func (l *link) strays(r *request) time.Duration {
	if r.URL.Path != "/v1/txn" {
		return 0
	}
	has := func(text string) bool { return bytes.Contains(r.body, []byte(text)) }
	guarded := has(`"check-index","Key":"` + l.w.root + `leader"`)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.strayRelease.IsZero() && !guarded &&
		has(`"delete-cas","Key":"`+l.w.root+`assignments/`):
		d := time.Until(l.strayRelease)
		l.strayRelease = time.Time{}
		return d
	case l.strayGoodbye && has(`"check-session","Key":"`+l.w.root+`members/`),
		l.stray && guarded && has(`"cas","Key":"`+l.w.root+`assignments/`):
		return time.Duration(1000+(r.number*7919+l.w.plan.seed*104729)%30000) * time.Millisecond
	}
	return 0
}

// confirmation tells whether r is the read that confirms a renewal of this process.
func (l *link) confirmation(r *request) bool {
	id, ok := strings.CutPrefix(r.URL.Path, "/v1/session/info/")
	return ok && id != "" && id == l.p.member.Session().Get().ID
}

// lastRenewal carries the renewals of a member in the episode late-lease.
func (l *link) lastRenewal(r *request) (*http.Response, error, bool) {
	l.mu.Lock()
	n := l.lateLease
	now := n == 2 && strings.HasPrefix(r.URL.Path, "/v1/session/renew/") ||
		n == 1 && l.confirmation(r)
	if now {
		l.lateLease--
	}
	l.mu.Unlock()
	switch {
	case !now:
		return nil, nil, false
	case n == 2:
		r.hit = true
		return nil, errReset, true
	}
	r.hit = true
	resp, err := l.w.deliver(context.WithoutCancel(r.Context()), l.p, r)
	l.w.destroy(l.p)
	l.set("silent")
	time.Sleep(3200 * time.Millisecond)
	return resp, err, true
}

func (l *link) set(how string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = append(l.cut, how)
}

func (l *link) unset(how string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, h := range l.cut {
		if h == how {
			l.cut = append(append([]string(nil), l.cut[:i]...), l.cut[i+1:]...)
			return
		}
	}
}

func canned(r *request, code int, body string) *http.Response {
	return &http.Response{
		Status: strconv.Itoa(code) + " " + http.StatusText(code), StatusCode: code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"text/plain"}},
		Body:   io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
		Request: r.Request,
	}
}

func discard(resp *http.Response, _ error) {
	if resp != nil {
		resp.Body.Close()
	}
}

// deliver hands r to Consul. Writes go one at a time, so that what is
// committed meanwhile is known to be r's.
func (w *world) deliver(ctx context.Context, p *process, r *request) (*http.Response, error) {
	out := r.Request.Clone(ctx)
	if r.body != nil {
		out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(r.body)), int64(len(r.body))
	}
	if w.mutant != nil && w.mutant.answer != nil {
		if resp := w.mutant.answer(p, r); resp != nil {
			return resp, nil
		}
	}
	if r.Method == http.MethodGet {
		resp, err := w.way(p).RoundTrip(out)
		if err == nil && resp.StatusCode == 200 && strings.HasPrefix(r.URL.Path, "/v1/kv/") {
			w.remember(r, resp)
		}
		return resp, err
	}
	w.wire.Lock()
	defer w.wire.Unlock()
	s := &sender{proc: p.name()}
	if r.URL.Path == "/v1/txn" {
		s.read(r.body, w.root)
		w.strike(s)
	}
	w.sender.Store(s)
	defer w.sender.Store(nil)
	resp, err := w.send(w.way(p), out, s)
	if strings.HasPrefix(r.URL.Path, "/v1/session/renew/") {
		code := 0
		if err == nil {
			code = resp.StatusCode
		}
		p.link.answered(code)
	}
	return resp, err
}

// shortBody breaks off.
type shortBody struct {
	io.ReadCloser
	left int
}

func (b *shortBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
