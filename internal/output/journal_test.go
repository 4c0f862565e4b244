//go:build unix

package output

import (
	"encoding/binary"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit"
)

// listen is a journal that takes messages.
func listen(t *testing.T, socket string) *net.UnixConn {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	must(t, conn.SetReadDeadline(time.Now().Add(testkit.Patience)))
	return conn
}

// receive reads one message in journald's format.
func receive(t *testing.T, conn *net.UnixConn) map[string]string {
	t.Helper()
	buf := make([]byte, 2*MaxLine)
	n, err := conn.Read(buf)
	must(t, err)
	fields := map[string]string{}
	for rest := string(buf[:n]); rest != ""; {
		line, after, ok := strings.Cut(rest, "\n")
		if !ok {
			t.Fatalf("a field without an end: %q", rest)
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			size := binary.LittleEndian.Uint64([]byte(after))
			value, after = after[8:8+size], after[8+size+1:]
		}
		fields[name], rest = value, after
	}
	return fields
}

func TestALineInTheJournalHasTheCommandsVariables(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	conn := listen(t, socket)
	f := start(t, Config{To: Journal, Socket: socket}, nil, nil)
	f.run("w1", "an\xff=\x00 answer\n", "", "COORDD_ITEM=w1", "COORDD_SERVICE=demo",
		"COORDD_TOKEN=7", "COORDD_ODD=a\nMESSAGE=forged", "OTHER=x")
	got := receive(t, conn)
	want := map[string]string{"MESSAGE": "an\xff=\x00 answer", "PRIORITY": "6",
		"SYSLOG_IDENTIFIER": "coordd/w1", "COORDD_ITEM": "w1", "COORDD_SERVICE": "demo",
		"COORDD_TOKEN": "7", "COORDD_STREAM": "out"}
	if len(got) != len(want) {
		t.Errorf("got %q", got)
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %q, want %q", name, got[name], value)
		}
	}
	f.run("w1", "", "an error\n")
	if got := receive(t, conn); got["PRIORITY"] != "3" || got["COORDD_STREAM"] != "err" {
		t.Errorf("standard error: %q", got)
	}
}

func TestANewJournalIsFound(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	first := listen(t, socket)
	f := start(t, Config{To: Journal, Socket: socket}, nil, nil)
	r := f.begin("w1")
	r.say(t, 1, "one\n")
	if got := receive(t, first)["MESSAGE"]; got != "one" {
		t.Errorf("got %q", got)
	}
	first.Close()
	_ = os.Remove(socket)
	r.say(t, 1, "two\n")
	testkit.Eventually(t, "a report", func() bool { return f.lostLines() == 1 })
	second := listen(t, socket)
	r.say(t, 1, "three\n")
	if got := receive(t, second)["MESSAGE"]; got != "three" {
		t.Errorf("got %q", got)
	}
	r.Ended()
	got := receive(t, second)
	if !strings.HasPrefix(got["MESSAGE"], "coordd: 1 line lost: ") || got["PRIORITY"] != "4" {
		t.Errorf("got %q", got)
	}
}

func TestAJournalThatStandsStillHoldsUpTheCommandAlone(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	conn := listen(t, socket)
	f := start(t, Config{To: Journal, Socket: socket}, nil, nil)
	r, line := f.begin("w1"), strings.Repeat("x", 1000)
	written := make(chan struct{})
	go func() {
		defer close(written)
		r.say(t, 1, strings.Repeat(line+"\n", 400))
	}()
	r.fills(t)
	f.run("w2", "another\n", "")
	for range 401 {
		if got := receive(t, conn)["MESSAGE"]; got != line && got != "another" {
			t.Fatalf("got %q", got)
		}
	}
	<-written
	r.Ended()
	f.copied()
	if n := f.lostLines(); n != 0 {
		t.Errorf("%d lines are lost", n)
	}
}

func TestAMissingJournalIsNamed(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	if err := CheckJournal(socket); err == nil || !strings.Contains(err.Error(), socket) {
		t.Errorf("got %v", err)
	}
	listen(t, socket)
	if err := CheckJournal(socket); err != nil {
		t.Error(err)
	}
}
