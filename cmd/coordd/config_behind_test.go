package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// behindWrites is a Consul, and a log with writes of k0, k1, ... that are not in it.
type behindWrites struct {
	*devconsul.Server
	t        *testing.T
	url, dir string
	away     atomic.Bool // for writes of these keys
}

func newBehindWrites(t *testing.T, writes int) *behindWrites {
	t.Helper()
	b := &behindWrites{Server: devconsul.New(devconsul.Config{}), t: t}
	t.Cleanup(b.Close)
	write := transport.TxnWith("config_data/k")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if write(r) {
			if b.away.Load() {
				http.Error(w, "No cluster leader", http.StatusInternalServerError)
				return
			}
			time.Sleep(200 * time.Millisecond) // who looks at once comes before it
		}
		b.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	b.url, b.dir = server.URL, leaveWrites(t, b.Server, writes)
	return b
}

// does runs a command that has the log.
func (b *behindWrites) does(code int, said string, command ...string) {
	b.t.Helper()
	text, got := withLog(b.t, b.url, b.dir, command...)
	if got != code || !strings.Contains(text, said) {
		b.t.Errorf("%q: exit code %d: %s", command, got, text)
	}
}

// has compares the keys that Consul has.
func (b *behindWrites) has(want string) {
	b.t.Helper()
	keys, _, err := b.Client().KV().Keys("service/demo/config_data/k", "", nil)
	must(b.t, err)
	got := strings.ReplaceAll(strings.Join(keys, " "), "service/demo/config_data/", "")
	if got != want {
		b.t.Errorf("the keys are %q, want %q", got, want)
	}
}

func TestARemovalComesAfterTheWritesThatAreLeftInItsLog(t *testing.T) {
	b := newBehindWrites(t, 2)
	b.does(0, "", "rm", "k0")
	b.has("k1")
	b.does(1, "no such key: k0", "rm", "k0")
}

func TestWhatIsLeftInALogIsSentByACommandThatWritesNothing(t *testing.T) {
	b := newBehindWrites(t, 2)
	b.does(1, "no such key: none", "rm", "none")
	b.has("k0 k1")
	b = newBehindWrites(t, 2)
	b.does(0, "", "import", "-")
	b.has("k0 k1")
}

func TestARemovalThatComesToNoTurnSaysSo(t *testing.T) {
	b := newBehindWrites(t, 2)
	b.away.Store(true)
	b.does(1, "nothing is deleted: 2 writes left in the log", "rm", "k0", "--wait", "1s")
	b.away.Store(false)
	b.does(0, "", "replay")
	b.has("k0 k1")
}
