package wal_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/coordd/coordd/internal/wal"
)

// A directory is on the disk when the one that it is in is: else a crash of the machine takes a log
// away whose records were fsynced.
func TestTheDirectoriesOfANewLogAreOnTheDiskBeforeItIsWrittenTo(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "a", "b", "log.d")
	var synced []string
	o := wal.Options{Sync: func(f *os.File) error {
		synced = append(synced, f.Name())
		return f.Sync()
	}}
	l, _, err := wal.Open(dir, o)
	must(t, err)
	for _, want := range []string{top, filepath.Join(top, "a"), filepath.Join(top, "a", "b"), dir} {
		if !slices.Contains(synced, want) {
			t.Errorf("%s was not synced: %q", want, synced)
		}
	}
	must(t, l.Close())
}
