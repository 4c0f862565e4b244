package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// settle is how long a background request gets to reach the server, and a wake-up that should not
// come to come.
const settle = 150 * time.Millisecond

// patience is how long a step with ~ is repeated, and how long is waited for what must happen.
const patience = 2 * time.Minute

// runner plays one script against one server.
type runner struct {
	target     target
	vars       map[string]string
	names      *names
	background map[string]*pendingAnswer
	different  []difference
	allHeaders bool
}

type answer struct {
	status int
	header http.Header
	body   []byte
	err    error
	took   time.Duration
}

type pendingAnswer struct {
	done   chan struct{}
	answer answer
	opts   requestOptions
}

type requestOptions struct {
	captures [][2]string
	shows    []string
	repeat   bool
}

// play returns one answer for each step, normalised.
func play(t *testing.T, tg target, s script) []string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &runner{target: tg, vars: map[string]string{"p": "c/" + randomName()}, names: newNames(),
		background: map[string]*pendingAnswer{},
		different:  differencesOf(scriptName(s), tg.name)}
	r.names.call(r.vars["p"], "${p}")
	defer func() {
		cancel()
		for _, p := range r.background {
			<-p.done
		}
	}()
	r.allHeaders = strings.Contains(s.steps[0].preamble, "# headers: all\n")
	r.names.unranked = strings.Contains(s.steps[0].preamble, "# indexes: unranked\n")
	var answers []string
	for _, st := range s.steps {
		out, err := r.step(ctx, st)
		if err != nil {
			t.Fatalf("%s: step %q: %v", s.name, st.command, err)
		}
		answers = append(answers, out)
	}
	for i := range answers {
		answers[i] = r.names.finish(answers[i])
	}
	return answers
}

func (r *runner) step(ctx context.Context, st step) (string, error) {
	command, err := r.expand(st.command)
	if err != nil {
		return "", err
	}
	word := strings.Fields(command)
	switch word[0] {
	case "sleep":
		d, err := time.ParseDuration(word[1])
		if err != nil {
			return "", err
		}
		time.Sleep(d)
		return "slept", nil
	case "election":
		return word[1], r.target.election(word[1] == "start")
	case "pending":
		p, limit := r.background[word[1]], settle
		for _, d := range r.different {
			if d.matches(st) && d.answered == "answered" {
				limit = patience // it comes, however busy the machine is
			}
		}
		select {
		case <-p.done:
			return "answered", nil
		case <-time.After(limit):
			return "pending", nil
		}
	case "wait":
		p := r.background[word[1]]
		select {
		case <-p.done:
		case <-time.After(patience):
			return "", fmt.Errorf("no answer in %v", patience)
		}
		delete(r.background, word[1])
		lo, hi, err := bounds(word[2])
		if err != nil {
			return "", err
		}
		verdict := "took " + word[2]
		if p.answer.took < lo || p.answer.took > hi {
			verdict = fmt.Sprintf("took %v, not %s", p.answer.took.Round(time.Millisecond), word[2])
		}
		out, err := r.show(p.answer, p.opts)
		return verdict + "\n" + out, err
	}

	body, err := r.expand(st.body)
	if err != nil {
		return "", err
	}
	if body, err = macro(body); err != nil {
		return "", err
	}
	var opts requestOptions
	header, background := http.Header{}, ""
	for _, w := range word[2:] {
		switch {
		case w[0] == '|':
			opts.shows = append(opts.shows, w[1:])
		case w == "~":
			opts.repeat = true
		case w[0] == '&':
			background = w[1:]
		case w[0] == '@':
			name, value, _ := strings.Cut(w[1:], ":")
			header.Add(name, value)
		default:
			name, path, ok := strings.Cut(w, "=")
			if !ok {
				return "", fmt.Errorf("what is %q?", w)
			}
			opts.captures = append(opts.captures, [2]string{name, path})
		}
	}
	if background != "" {
		p := &pendingAnswer{done: make(chan struct{}), opts: opts}
		r.background[background] = p
		go func() {
			defer close(p.done)
			p.answer = r.target.do(ctx, word[0], word[1], header, body)
		}()
		return "sent", nil
	}
	if opts.repeat && *update {
		time.Sleep(time.Second) // nothing to compare with yet
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		answer := r.target.do(ctx, word[0], word[1], header, body)
		out, err := r.show(answer, opts)
		if err != nil || !opts.repeat || *update || time.Now().After(deadline) ||
			r.names.finish(out) == st.recorded {
			return out, err
		}
	}
}

// do sends one request with nothing added: no redirects, no compression.
func (tg target) do(ctx context.Context, method, path string, header http.Header,
	body string) answer {
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	begin := time.Now()
	req, err := http.NewRequestWithContext(ctx, method, tg.base+path, content)
	if err != nil {
		return answer{err: err}
	}
	for name, values := range header {
		req.Header[name] = values
	}
	if req.Header.Get("Transfer-Encoding") == "chunked" {
		// To net/http this is not a header but a body whose length is unknown.
		req.Header.Del("Transfer-Encoding")
		req.ContentLength, req.GetBody = -1, nil
	}
	resp, err := tg.transport.RoundTrip(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return answer{status: resp.StatusCode, header: resp.Header, body: raw, err: err,
		took: time.Since(begin)}
}

// show renders an answer, and keeps what the step wants kept.
func (r *runner) show(a answer, opts requestOptions) (string, error) {
	if a.err != nil {
		return "", a.err
	}
	var value any
	decoder := json.NewDecoder(bytes.NewReader(a.body))
	decoder.UseNumber()
	isJSON := len(a.body) > 0 && decoder.Decode(&value) == nil && !decoder.More()

	for _, c := range opts.captures {
		text := a.header.Get("X-Consul-Index")
		if c[1] != "index" {
			found, err := dig(value, c[1])
			if err != nil {
				return "", fmt.Errorf("%w in the answer %d %s", err, a.status, a.body)
			}
			text = fmt.Sprint(found)
		}
		r.vars[c[0]] = text
		if uuidPattern.MatchString(text) {
			r.names.call(text, "${"+c[0]+"}")
		}
	}

	var b strings.Builder
	fmt.Fprintf(&b, "%d %s\n", a.status, a.header.Get("Content-Type"))
	r.names.headers(&b, a.header, r.allHeaders)
	switch {
	case len(opts.shows) > 0:
		for _, path := range opts.shows {
			found, err := dig(value, path)
			if err != nil {
				fmt.Fprintf(&b, "%s: none\n", path)
				continue
			}
			fmt.Fprintf(&b, "%s: %s\n", path, r.names.json(found))
		}
	case isJSON:
		b.WriteString(r.names.json(value) + "\n")
	case len(a.body) > 0:
		b.WriteString(r.names.text(string(a.body)) + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// expand puts the kept values in.
func (r *runner) expand(text string) (string, error) {
	for name, value := range r.vars {
		text = strings.ReplaceAll(text, "${"+name+"}", value)
	}
	if i := strings.Index(text, "${"); i >= 0 {
		return "", fmt.Errorf("nothing was kept under the name at %.20q", text[i:])
	}
	return text, nil
}

func macro(body string) (string, error) {
	word := strings.SplitN(body, " ", 3)
	if !strings.HasPrefix(word[0], "@") {
		return body, nil
	}
	if len(word) < 3 {
		return "", fmt.Errorf("the macro %s lacks its arguments", word[0])
	}
	switch word[0] {
	case "@repeat":
		n, err := strconv.Atoi(word[2])
		return strings.Repeat(word[1], n), err
	case "@ops":
		n, err := strconv.Atoi(word[1])
		ops := make([]string, n)
		for i := range ops {
			ops[i] = strings.ReplaceAll(word[2], "$n", fmt.Sprintf("%03d", i))
		}
		return "[" + strings.Join(ops, ",") + "]", err
	}
	return "", fmt.Errorf("no macro %s", word[0])
}

func bounds(text string) (lo, hi time.Duration, err error) {
	from, to, ok := strings.Cut(text, "..")
	if !ok {
		return 0, 0, fmt.Errorf("%q is not of the form 1s..2s", text)
	}
	if lo, err = time.ParseDuration(from); err != nil {
		return 0, 0, err
	}
	hi, err = time.ParseDuration(to)
	return lo, hi, err
}
