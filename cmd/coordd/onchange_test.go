package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/guard"
)

// The directory of payloads may be removed while coordd runs. One that is somebody else's by then
// gets none.
func TestAPayloadIsWrittenThoughItsDirectoryWasRemoved(t *testing.T) {
	t.Setenv("RUNTIME_DIRECTORY", filepath.Join(t.TempDir(), "coordd"))
	if err := makeRuntimeDir(); err != nil {
		t.Fatal(err)
	}
	file := payloadFile(lockFile("s", "m"), "a")
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
	if err := writePayload(file, item); !errors.Is(err, guard.ErrExhausted) {
		t.Errorf("in a directory that others may write to: %v", err)
	}
}
