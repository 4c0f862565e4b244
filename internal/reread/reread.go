// Package reread reads files that are renewed on disk while a process runs: tokens, certificates,
// authorities.
//
//  1. A value is made of what its files hold. Contents are compared, not times: two files that were
//     written within a tick of the clock bear the same.
//  2. [Files.Get] looks once a second at most, and after [Again]. Nobody but the caller that looks
//     waits for the disk.
//  3. Files of which no value can be made are named once, and the value before stays.
package reread

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Every is how often it is looked whether files have changed.
const Every = time.Second

var opened, again atomic.Int64

// Some tells whether this process has opened any files.
func Some() bool { return opened.Load() > 0 }

// Again makes each next Get of this process look.
func Again() { again.Add(1) }

// Files are the files that a value is made of.
type Files[T any] struct {
	what  string
	paths []string
	from  func(texts [][]byte) (T, error)
	value atomic.Pointer[T]

	mu     sync.Mutex // held while somebody looks
	last   string     // what the files held then
	looked time.Time
	again  int64
	once   bool // one of them is a pipe: what came through it is not there a second time
}

// Open reads the files and makes the first value. What names it in logs. Of a directory all files
// count, as one. Paths that are empty are left out.
func Open[T any](what string, from func(texts [][]byte) (T, error), paths ...string) (*Files[T],
	error) {
	f := &Files[T]{what: what, from: from}
	for _, path := range paths {
		if path == "" {
			continue
		}
		f.paths = append(f.paths, path)
		info, err := os.Stat(path)
		f.once = f.once || err == nil && !info.Mode().IsRegular() && !info.IsDir()
	}
	f.looked, f.again = time.Now(), again.Load()
	_, err := f.read()
	if err != nil {
		return nil, err
	}
	opened.Add(1)
	return f, nil
}

// Get returns the value of the files as they were a second ago, or later.
func (f *Files[T]) Get(log *slog.Logger) T {
	if f.mu.TryLock() {
		defer f.mu.Unlock()
		if time.Since(f.looked) >= Every || f.again != again.Load() {
			f.look(log)
		}
	}
	return *f.value.Load()
}

// Look returns the value of the files as they are now.
func (f *Files[T]) Look(log *slog.Logger) T {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.look(log)
	return *f.value.Load()
}

func (f *Files[T]) look(log *slog.Logger) {
	if f.once {
		return
	}
	f.looked, f.again = time.Now(), again.Load()
	files := strings.Join(f.paths, ", ")
	switch changed, err := f.read(); {
	case !changed:
	case err != nil: // also between the writes of two files
		log.Error("file-not-renewed", "what", f.what, "files", files, "err", err, "then",
			"going on with what was read before, until it changes")
	default:
		log.Info("file-renewed", "what", f.what, "files", files)
	}
}

// read makes a new value if the files have changed.
func (f *Files[T]) read() (changed bool, err error) {
	texts, errs := make([][]byte, len(f.paths)), make([]error, len(f.paths))
	for i, path := range f.paths {
		texts[i], errs[i] = contents(path)
	}
	err = errors.Join(errs...)
	now := fmt.Sprintf("%q %v", texts, err)
	if changed = now != f.last; !changed {
		return false, nil
	}
	f.last = now
	if err != nil {
		return true, err
	}
	value, err := f.from(texts)
	if err == nil {
		f.value.Store(&value)
	}
	return true, err
}

// contents reads a file, or those below a directory.
func contents(path string) (all []byte, err error) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return os.ReadFile(path)
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return nil, err
	}
	err = filepath.WalkDir(path, func(file string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := os.Stat(file); err == nil && info.IsDir() {
			return nil // also a link to one, which Kubernetes makes
		}
		text, err := os.ReadFile(file)
		all = append(append(all, text...), '\n')
		return err
	})
	return all, err
}

// CheckPEM refuses what is no PEM, or was cut off: a file that is being written.
func CheckPEM(texts ...[]byte) error {
	for _, text := range texts {
		begun := bytes.Count(text, []byte("-----BEGIN "))
		for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
			begun--
		}
		if begun != 0 || !bytes.Contains(text, []byte("-----BEGIN ")) {
			return errors.New("failed to find any PEM data, or its end")
		}
	}
	return nil
}

// Token is the token that a file holds: one line of ASCII, without the blanks around it. What is no
// token may be any secret, and is not shown.
func Token(texts [][]byte) (string, error) {
	text := string(bytes.TrimSpace(bytes.TrimPrefix(bytes.Join(texts, nil), []byte(BOM))))
	if text == "" || len(text) > maxToken ||
		strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("a token is one line of 1 to %d characters of ASCII without spaces",
			maxToken)
	}
	return text, nil
}

// BOM is what some editors write at the beginning of a file.
const BOM = "\ufeff"

const maxToken = 4096 // a request's head has room for it
