package wal_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/coordd/coordd/internal/wal"
)

func open(t *testing.T, dir string, o wal.Options) (*wal.Log, []string) {
	t.Helper()
	l, records, err := wal.Open(dir, o)
	must(t, err)
	return l, texts(records)
}

func texts(records [][]byte) []string {
	var out []string
	for _, r := range records {
		out = append(out, string(r))
	}
	return out
}

func reopened(t *testing.T, l *wal.Log, dir string) (*wal.Log, []string) {
	t.Helper()
	must(t, l.Close())
	return open(t, dir, wal.Options{})
}

func TestWhatWasAppendedIsReadAgainInOrder(t *testing.T) {
	dir := t.TempDir()
	l, got := open(t, dir, wal.Options{})
	if got != nil {
		t.Fatalf("a new log holds %q", got)
	}
	want := []string{"one", "", "three\n\x00\xff"}
	for _, r := range want[:2] {
		must(t, l.Append([]byte(r)))
	}
	must(t, l.Note([]byte(want[2]), false))
	l, got = reopened(t, l, dir)
	if !slices.Equal(got, want) {
		t.Fatalf("read %q, want %q", got, want)
	}
	must(t, l.Rewrite([]byte("new")))
	must(t, l.Append([]byte("newer")))
	l, got = reopened(t, l, dir)
	defer l.Close()
	if !slices.Equal(got, []string{"new", "newer"}) {
		t.Fatalf("after a rewrite: %q", got)
	}
}

func TestATailThatWasCutOffIsRemovedAndNothingElse(t *testing.T) {
	whole := t.TempDir()
	l, _ := open(t, whole, wal.Options{})
	for i := range 3 {
		must(t, l.Append(fmt.Appendf(nil, "record %d", i)))
	}
	must(t, l.Close())
	file, err := os.ReadFile(filepath.Join(whole, "log"))
	must(t, err)
	_, end, _ := wal.Parse(file)
	if end != len(file) {
		t.Fatalf("%d of %d bytes are good", end, len(file))
	}
	last := 0
	for cut := range len(file) {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, "log"), file[:cut], 0o600))
		if cut < len("coordd-log-1\n") { // which no crash does
			if _, _, err := wal.Open(dir, wal.Options{}); !errors.Is(err, wal.ErrDamaged) {
				t.Fatalf("cut at %d: %v", cut, err)
			}
			continue
		}
		l, got := open(t, dir, wal.Options{})
		if n := len(got); n < last || n > 2 || !slices.Equal(got, []string{"record 0", "record 1",
			"record 2"}[:n]) {
			t.Fatalf("cut at %d: %q", cut, got)
		}
		last = len(got)
		must(t, l.Append([]byte("after")))
		l, again := reopened(t, l, dir)
		if !slices.Equal(again, append(got, "after")) {
			t.Fatalf("cut at %d, then appended: %q", cut, again)
		}
		l.Close()
	}
	if last != 2 {
		t.Errorf("never more than %d records", last)
	}
}

func TestDamageBeforeTheLastRecordIsRefusedAndLeftAsItIs(t *testing.T) {
	dir := t.TempDir()
	l, _ := open(t, dir, wal.Options{})
	for _, r := range []string{"first record", "second record"} {
		must(t, l.Append([]byte(r)))
	}
	l.Close()
	name := filepath.Join(dir, "log")
	good, err := os.ReadFile(name)
	must(t, err)
	at := bytes.Index(good, []byte("first"))
	for _, i := range []int{0, 3, at, at - 1, at - 6, at - 10, at - 16} {
		bad := bytes.Clone(good)
		bad[i] ^= 0x40
		must(t, os.WriteFile(name, bad, 0o600))
		if _, _, err := wal.Open(dir, wal.Options{}); !errors.Is(err, wal.ErrDamaged) {
			t.Errorf("byte %d flipped: %v", i, err)
		}
		if now, _ := os.ReadFile(name); !bytes.Equal(now, bad) {
			t.Errorf("byte %d flipped: the file was changed", i)
		}
	}
}

func TestOneProcessHasTheLogAtATime(t *testing.T) {
	dir := t.TempDir()
	l, _ := open(t, dir, wal.Options{})
	if _, _, err := wal.Open(dir, wal.Options{}); !errors.Is(err, wal.ErrInUse) {
		t.Fatalf("opened twice: %v", err)
	}
	l.Close()
	l, _ = open(t, dir, wal.Options{})
	l.Close()
	if err := l.Append([]byte("x")); !errors.Is(err, wal.ErrBroken) {
		t.Fatalf("appended to a closed log: %v", err)
	}
}

func TestAFullLogRefusesAndKeepsWhatItHas(t *testing.T) {
	dir := t.TempDir()
	l, _ := open(t, dir, wal.Options{MaxBytes: 120})
	n := 0
	for ; ; n++ {
		err := l.Append(make([]byte, 20))
		if errors.Is(err, wal.ErrFull) {
			break
		}
		if err != nil || n > 10 {
			t.Fatal(n, err)
		}
	}
	if l.Size() > 120 {
		t.Errorf("it has %d bytes", l.Size())
	}
	if err := l.Append(make([]byte, wal.MaxRecord+1)); !errors.Is(err, wal.ErrFull) {
		t.Errorf("a record over the bound: %v", err)
	}
	if err := l.Note([]byte("done"), false); err != nil {
		t.Errorf("a note has no room: %v", err)
	}
	l, got := reopened(t, l, dir)
	defer l.Close()
	if len(got) != n+1 {
		t.Errorf("%d records were taken and a note, %d are there", n, len(got))
	}
}

func TestRecordsThatHadNotReachedTheDiskMayBeMissingInTheMiddle(t *testing.T) {
	// Pages of one Append reach the disk in any order: a later record alone says nothing of an
	// earlier one.
	file := wal.Encode([]byte("one"), []byte("two"))
	at := bytes.Index(file, []byte("one"))
	file[at] ^= 1
	records, good, err := wal.Parse(file)
	if len(records) != 0 || err != nil || good != len("coordd-log-1\n") {
		t.Fatalf("%q, %d good, %v", records, good, err)
	}
}

func TestABrokenLogIsGoodAgainOnceItIsRewritten(t *testing.T) {
	dir := t.TempDir()
	l, _ := open(t, dir, wal.Options{})
	must(t, l.Append([]byte("one")))
	wal.Break(l)
	for _, add := range []func([]byte) error{
		func(b []byte) error { return l.Note(b, false) },
		func(b []byte) error { return l.Note(b, true) },
		func(b []byte) error { return l.Append(b) },
	} {
		if err := add([]byte("lost")); !errors.Is(err, wal.ErrBroken) {
			t.Fatal(err)
		}
	}
	must(t, l.Rewrite([]byte("one")))
	must(t, l.Note([]byte("two"), true))
	l, got := reopened(t, l, dir)
	must(t, l.Close())
	if !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("read %q", got)
	}
	if err := l.Rewrite(); !errors.Is(err, wal.ErrBroken) {
		t.Errorf("a closed log was rewritten: %v", err)
	}
}

func FuzzParseNeverReturnsWhatWasNotAppended(f *testing.F) {
	file := wal.Encode([]byte("one"), []byte(`{"n":2}`), nil)
	f.Add(file)
	f.Add(file[:len(file)-3])
	f.Add([]byte("coordd-log-1\n"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		records, good, err := wal.Parse(data)
		if err != nil {
			if !errors.Is(err, wal.ErrDamaged) || records != nil {
				t.Fatalf("%q and %v", records, err)
			}
			return
		}
		if good > len(data) {
			t.Fatalf("%d of %d bytes are good", good, len(data))
		}
		again, all, err := wal.Parse(wal.Encode(records...))
		if err != nil || all != max(good, len("coordd-log-1\n")) ||
			!slices.EqualFunc(again, records, bytes.Equal) {
			t.Fatalf("%q was read as %q, written again as %q (%d bytes, not %d): %v", data, records,
				again, all, good, err)
		}
	})
}

// failing is a disk whose fsync fails as long as it is told to.
type failing struct{ on bool }

var errDisk = errors.New("input/output error")

func (f *failing) sync(file *os.File) error {
	if f.on {
		return errDisk
	}
	return file.Sync()
}

func TestWhatAFailedFsyncLeftIsNotFoundByTheNextOpen(t *testing.T) {
	dir, disk := t.TempDir(), &failing{}
	l, _, err := wal.Open(dir, wal.Options{Sync: disk.sync})
	must(t, err)
	must(t, l.Append([]byte("one")))
	disk.on = true
	if err := l.Append([]byte("two")); !errors.Is(err, wal.ErrBroken) ||
		!errors.Is(err, wal.ErrUncertain) {
		t.Errorf("%v: the disk may hold it", err)
	}
	if err := l.Append([]byte("three")); !errors.Is(err, wal.ErrBroken) ||
		errors.Is(err, wal.ErrUncertain) {
		t.Errorf("%v: the disk cannot hold what was not written", err)
	}
	if err := l.Rewrite([]byte("one")); err == nil {
		t.Error("rewritten by a disk that fails")
	}
	if err := l.Append([]byte("four")); !errors.Is(err, wal.ErrBroken) {
		t.Errorf("after a rewrite that failed: %v", err)
	}
	l, got := reopened(t, l, dir)
	defer l.Close()
	if !slices.Equal(got, []string{"one"}) {
		t.Errorf("found %q, and the caller was told of the first one only", got)
	}
}

func TestARewriteOfWhichTheDirectoryIsNotOnTheDiskIsUncertain(t *testing.T) {
	dir, fails := t.TempDir(), false
	l, _ := open(t, dir, wal.Options{Sync: func(f *os.File) error {
		if info, err := f.Stat(); fails && (err != nil || info.IsDir()) {
			return errors.New("the disk fails")
		}
		return f.Sync()
	}})
	must(t, l.Append([]byte("old")))
	fails = true
	err := l.Rewrite([]byte("new"))
	if !errors.Is(err, wal.ErrBroken) {
		t.Errorf("rewritten: %v", err)
	}
	l, got := reopened(t, l, dir)
	defer l.Close()
	if !slices.Equal(got, []string{"old"}) && !errors.Is(err, wal.ErrUncertain) {
		t.Errorf("it holds %q, and its caller was told %v", got, err)
	}
}
