package store_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/store"
	"github.com/hashicorp/consul/api"
)

// thinLine carries so many bytes a second each way, and nothing more of an answer after stalls
// bytes of it (0: all of it).
type thinLine struct {
	to     http.RoundTripper
	pace   int
	stalls int
}

func (l *thinLine) wait(n int) {
	time.Sleep(time.Duration(n) * time.Second / time.Duration(l.pace))
}

func (l *thinLine) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		l.wait(len(body))
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	resp, err := l.to.RoundTrip(r)
	if err == nil {
		resp.Body = &thinBody{ReadCloser: resp.Body, line: l, r: r}
	}
	return resp, err
}

type thinBody struct {
	io.ReadCloser
	line *thinLine
	r    *http.Request
	n    int
}

func (b *thinBody) Read(p []byte) (int, error) {
	if b.line.stalls > 0 && b.n >= b.line.stalls {
		<-b.r.Context().Done()
	}
	if err := b.r.Context().Err(); err != nil {
		return 0, err
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), 32<<10)])
	b.n += n
	b.line.wait(n)
	return n, err
}

func TestWhatIsLargeIsReadAndWrittenOverAThinLineAndAStalledOneIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, full *store.Store) {
		var keys []string
		var reads []store.Op
		for i := range 10 {
			key := fmt.Sprint("data/k", i)
			must(t, full.Put(t.Context(), key, bytes.Repeat([]byte{byte(i)}, 380<<10), 0))
			keys, reads = append(keys, key), append(reads, store.Get(key))
		}
		line := &thinLine{to: consul.RoundTripper(), pace: 140 << 10}
		client, err := store.NewClient(&api.Config{Address: "consul.test",
			HttpClient: &http.Client{Transport: line}})
		must(t, err)
		s, err := store.New(store.Config{Client: client})
		must(t, err)
		took := func(what string, least, most time.Duration, f func() error) {
			begin := time.Now()
			err := f()
			if d := time.Since(begin); err != nil || d < least || d > most {
				t.Errorf("%s: %v after %v", what, err, d)
			}
		}
		list := func() error {
			got, _, err := s.List(t.Context(), "data/", store.Consistent)
			if err == nil && len(got) != len(keys) {
				err = fmt.Errorf("%d of %d keys", len(got), len(keys))
			}
			return err
		}
		took("a list of 5 MB", 30*time.Second, time.Minute, list)
		took("a transaction that reads 5 MB", 30*time.Second, time.Minute, func() error {
			_, err := s.ReadTxn(t.Context(), reads...)
			return err
		})
		took("a watch of 5 MB", 30*time.Second, time.Minute, func() error {
			_, err := s.WatchPrefix("data/").Next(t.Context())
			return err
		})
		took("a write of 500 KB", 3500*time.Millisecond, 5*time.Second, func() error {
			return s.Put(t.Context(), keys[0], bytes.Repeat([]byte{'x'}, 380<<10), 0)
		})

		line.stalls = 1 << 20
		for what, f := range map[string]func() error{
			"a transaction": func() error {
				_, err := s.ReadTxn(t.Context(), reads...)
				return err
			},
			"a list": list,
		} {
			begin := time.Now()
			err := f()
			wantKind(t, err, store.ErrUnreachable, true)
			least := (1 << 20) * time.Second / time.Duration(line.pace)
			if d := time.Since(begin); d < least || d > least+31*time.Second ||
				what == "a transaction" && d > least+4*time.Second {
				t.Errorf("%s that stalled was given up after %v", what, d)
			}
		}
		line.stalls, line.pace = 0, 1<<10 // slower than anything that is waited for
		begin := time.Now()
		if _, err := s.ReadTxn(t.Context(), reads...); err == nil ||
			time.Since(begin) > 40*time.Second {
			t.Errorf("a line of 1 KB/s: %v after %v", err, time.Since(begin))
		}
	})
}
