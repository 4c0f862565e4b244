//go:build unix

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit"
)

// A file that a flag or a variable names may be a pipe that nobody writes to.
func TestASignalEndsACommandThatWaitsForAFile(t *testing.T) {
	elect, zk := []string{"elect", "x", "true"}, []string{"--zookeeper", "127.0.0.1:1"}
	for name, c := range map[string]struct {
		args []string
		flag string // that names the file; else it is a variable
		code int
	}{
		"credentials for ZooKeeper": {append(elect, zk...), "--zookeeper-auth-file", 0},
		"ZooKeeper's authority":     {append(elect, zk...), "--zookeeper-ca-file", 0},
		"the same, for who follows": {append([]string{"elect", "x", "--follow"}, zk...),
			"--zookeeper-ca-file", 0},
		"the token, for a candidate": {elect, "CONSUL_HTTP_TOKEN_FILE", 0},
		"the token, for an order": {[]string{"elect", "x", "--end"},
			"CONSUL_HTTP_TOKEN_FILE", 1},
		"the token, for a member": {[]string{"run", "--id", "n1", "--exec", "true"},
			"CONSUL_HTTP_TOKEN_FILE", 1},
		"the page's token": {[]string{"run", "--id", "n1", "--http", "127.0.0.1:0"},
			"--http-token-file", 1},
		"the page's certificate": {[]string{"run", "--id", "n1", "--http", "127.0.0.1:0",
			"--http-key-file", "key"}, "--http-cert-file", 1},
		"Consul's authority, for an operator":   {[]string{"status"}, "CONSUL_CACERT", 1},
		"the settings, before a command begins": {[]string{"status"}, "--config", 1},
	} {
		t.Run(name, func(t *testing.T) {
			pipe := filepath.Join(t.TempDir(), "pipe")
			must(t, syscall.Mkfifo(pipe, 0o600))
			args := c.args
			if strings.HasPrefix(c.flag, "--") {
				args = append(args[:len(args):len(args)], c.flag, pipe)
			} else {
				t.Setenv(c.flag, pipe)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			none := func(string) (string, bool) { return "", false }
			var out, text bytes.Buffer
			ended := make(chan int, 1)
			go func() {
				ended <- run(ctx, surroundings{args: args, env: none, in: &out, out: &out,
					err: &text})
			}()
			testkit.Look(testkit.Patience, func() string {
				if opens() {
					return ""
				}
				return "nobody opens it"
			})
			cancel()
			var ok bool
			select {
			case code := <-ended:
				ok = true
				if code != c.code || strings.Contains(text.String(), "--help") {
					t.Errorf("exit code %d, want %d: %s", code, c.code, text.String())
				}
			case <-time.After(testkit.Patience):
				t.Errorf("it waits still, %v after the signal", testkit.Patience)
			}
			w, err := os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0)
			if err != nil {
				t.Fatalf("nobody waits for the file: %v", err)
			}
			w.Close()
			if !ok {
				<-ended
			}
			// the next one must not take this one for its own
			testkit.Eventually(t, "nobody waits for the file", func() bool { return !opens() })
		})
	}
}

// opens tells whether some goroutine waits in open(2).
func opens() bool {
	stacks := make([]byte, 1<<20)
	return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("syscall.openat("))
}
