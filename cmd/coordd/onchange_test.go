package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/coordd/coordd/actors"
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
	if err := writePayload(file, item); !errors.Is(err, errNotWritten) {
		t.Errorf("in a directory that others may write to: %v", err)
	}
}

// A coordd that was frozen for longer than its lease may have a successor with its id on the same
// host by the time it goes on. The file is that one's command's by then.
func TestAPayloadThatAnotherProcessHasWrittenStays(t *testing.T) {
	t.Setenv("RUNTIME_DIRECTORY", filepath.Join(t.TempDir(), "coordd"))
	file := payloadFile(lockFile("s", "m"), "a")
	frozen, successor := &writtenPayload{file: file}, &writtenPayload{file: file}
	old, now := newPayloadFiles(), newPayloadFiles() // of two processes
	item := func(payload string) actors.Item {
		return actors.Item{ID: "a", Payload: []byte(payload)}
	}
	must(t, old.put(t.Context(), frozen, item("one")))
	for _, payload := range []string{"two", "three", "four"} {
		must(t, now.put(t.Context(), successor, item(payload)))
		if err := old.put(t.Context(), frozen, item("one")); err == nil {
			t.Error("an older payload is written over it")
		}
		old.drop(frozen)
		if got, err := os.ReadFile(file); string(got) != payload {
			t.Errorf("the file has %q, %v", got, err)
		}
	}
	now.drop(successor)
	if _, err := os.Lstat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is left behind: %v", err)
	}
}
