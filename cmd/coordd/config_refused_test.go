package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/hashicorp/consul/api"
)

// The log of a member that was killed while Consul was away, in which somebody else has then
// written what it was to write.
func TestAReplayTellsOfEveryWriteThatWasRefused(t *testing.T) {
	const writes = 47
	url, dir := conflictingWrites(t, writes)
	said, code := replay(t, url, dir)
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	if named := strings.Count(said, "is for no key, Consul has"); named != 20 ||
		!strings.Contains(said, fmt.Sprint(writes-20, " more were refused")) {
		t.Errorf("%d are named", named)
	}
	if t.Failed() {
		t.Log(said)
	}
}

func TestAReplayThatRunsOutOfTimeTellsHowManyWritesAreLeft(t *testing.T) {
	consul := devconsul.New(devconsul.Config{})
	defer consul.Close()
	dir := leaveWrites(t, consul, 3)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			http.Error(w, "No cluster leader", http.StatusInternalServerError)
			return
		}
		consul.ServeHTTP(w, r)
	}))
	defer server.Close()
	said, code := replay(t, server.URL, dir, "--wait", "1s")
	if code == 0 || !strings.Contains(said, "3 writes left in the log") {
		t.Errorf("exit code %d: %s", code, said)
	}
}

// leaveWrites leaves writes in a log that a process without Consul has taken in.
func leaveWrites(t *testing.T, consul *devconsul.Server, writes int) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "log")
	net := transport.NewWire(consul.RoundTripper())
	left, err := configstore.New(configstore.Config{Service: "demo", LogDir: dir,
		Client: devconsul.ClientOver(net), Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	running, kill := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- left.Run(running) }()
	must(t, left.WaitLoaded(ctx))
	net.Cut(errors.New("cut off"))
	for i := range writes {
		go left.Put(running, fmt.Sprint("k", i), []byte("late"))
	}
	if _, err := left.Queue().Wait(ctx, func(q configstore.Queue) bool {
		return q.Logged == writes
	}); err != nil {
		t.Fatal(err)
	}
	kill()
	must(t, <-ended)
	return dir
}

// conflictingWrites is a log with writes, and a Consul in which others have written their keys.
func conflictingWrites(t *testing.T, writes int) (url, dir string) {
	t.Helper()
	consul := devconsul.New(devconsul.Config{})
	t.Cleanup(consul.Close)
	dir = leaveWrites(t, consul, writes)
	for i := range writes {
		if _, err := consul.Client().KV().Put(&api.KVPair{
			Key: fmt.Sprint("service/demo/config_data/k", i)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(consul)
	t.Cleanup(server.Close)
	return server.URL, dir
}

// replay runs the command, and returns what it says in its standard error.
func replay(t *testing.T, consul, dir string, more ...string) (said string, code int) {
	t.Helper()
	return withLog(t, consul, dir, append([]string{"replay"}, more...)...)
}

// withLog does so with any command of config that has a log.
func withLog(t *testing.T, consul, dir string, command ...string) (said string, code int) {
	t.Helper()
	var out bytes.Buffer
	code = run(t.Context(), surroundings{args: append(append([]string{"config"}, command...),
		"--config-log", dir, "--service", "demo", "--consul", consul), env: os.LookupEnv,
		in: strings.NewReader(""), out: io.Discard, err: &out})
	return out.String(), code
}

// A slip of the pen in the path is no empty log.
func TestAReplayOfALogThatIsNotThereMakesNone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "slip")
	said, code := replay(t, "127.0.0.1:1", dir)
	if code != 2 || !strings.Contains(said, "no such directory") {
		t.Errorf("exit code %d: %s", code, said)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it made %s: %v", dir, err)
	}
}

func TestASignalEndsAReplayWhoseErrorsNobodyReads(t *testing.T) {
	url, dir := conflictingWrites(t, 2)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	errs := &unreadPipe{begun: make(chan struct{}), closed: make(chan struct{})}
	defer close(errs.closed)
	go func() {
		<-errs.begun
		cancel()
	}()
	endsByASignal(t, ctx, surroundings{args: []string{"config", "replay", "--config-log", dir,
		"--service", "demo", "--consul", url}, env: os.LookupEnv,
		in: strings.NewReader(""), out: io.Discard, err: errs})
}

// endsByASignal runs a command, which has to end with a failure when ctx does: as by a signal.
func endsByASignal(t *testing.T, ctx context.Context, s surroundings) {
	t.Helper()
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, s) }()
	<-ctx.Done()
	select {
	case code := <-ended:
		if code != exitFailed {
			t.Errorf("exit code %d", code)
		}
	case <-time.After(testkit.Patience):
		t.Errorf("it waits still, %v after the signal", testkit.Patience)
	}
}
