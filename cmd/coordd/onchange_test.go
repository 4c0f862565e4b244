package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coordd/coordd/actors"
)

// The directory of payloads may be removed while coordd runs. A directory that other users may write
// to gets none.
func TestAPayloadIsWrittenThoughItsDirectoryWasRemoved(t *testing.T) {
	t.Setenv("RUNTIME_DIRECTORY", filepath.Join(t.TempDir(), "coordd"))
	if err := makeRuntimeDir(); err != nil {
		t.Fatal(err)
	}
	file := payloadFiles(lockFile("s", "m")) + "a"
	item := actors.Item{ID: "a", Payload: []byte("two")}
	if err := os.Remove(runtimeDir()); err != nil {
		t.Fatal(err)
	}
	if err := writePayload(file, item); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(file); string(got) != "two" {
		t.Errorf("the file has %q, %v", got, err)
	}
	if err := os.Chmod(runtimeDir(), 0o777); err != nil {
		t.Fatal(err)
	}
	item.Payload = []byte("three")
	if err := writePayload(file, item); err == nil || !strings.Contains(err.Error(), "chmod go-w") {
		t.Errorf("in a directory that others may write to: %v", err)
	}
}

// A coordd that was killed has left its files behind. Those of other members are not its own.
func TestThePayloadsOfAKilledPredecessorAreRemoved(t *testing.T) {
	t.Setenv("RUNTIME_DIRECTORY", filepath.Join(t.TempDir(), "coordd"))
	must(t, makeRuntimeDir())
	left := payloadFiles(lockFile("s", "m")) + "1-a"
	others := payloadFiles(lockFile("s", "other")) + "1-a"
	for _, file := range []string{left, others} {
		must(t, os.WriteFile(file, nil, 0o600))
	}
	removePayloads(lockFile("s", "m"))
	if _, err := os.Lstat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is left behind: %v", err)
	}
	if _, err := os.Lstat(others); err != nil {
		t.Error(err)
	}
}
