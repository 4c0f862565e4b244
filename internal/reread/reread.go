// Package reread reads files that are renewed on disk while a process runs: tokens, certificates,
// authorities.
//
//  1. A value is made of what its files hold. Contents are compared, not times: two files that were
//     written within a tick of the clock bear the same. A directory holds what its files do.
//  2. [Files.Get] looks once a second at most. Nobody but the caller that looks waits for the disk.
//  3. Files of which no value can be made are named once, and the value before stays.
//
// What is said goes to slog.Default.
package reread

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Every is how often it is looked whether files have changed.
const Every = time.Second

var opened atomic.Bool

// Some tells whether this process has opened any files.
func Some() bool { return opened.Load() }

// Files are the files that a value is made of.
type Files[T any] struct {
	what  string
	paths []string
	from  func(texts [][]byte) (T, error)
	value atomic.Pointer[T]
	once  bool // one of them is a pipe: what came through it is not there a second time

	mu     sync.Mutex // held while somebody looks
	last   [][]byte   // what the files held then, and the error
	looked time.Time
}

// Open reads the files and makes the first value. What names it in logs.
func Open[T any](what string, from func(texts [][]byte) (T, error), paths ...string) (*Files[T],
	error) {
	f := &Files[T]{what: what, paths: paths, from: from, looked: time.Now()}
	for _, path := range paths {
		info, err := os.Stat(path)
		f.once = f.once || err == nil && !info.Mode().IsRegular() && !info.IsDir()
	}
	_, err := f.read()
	if err == nil {
		opened.Store(true)
	}
	return f, err
}

// Get returns the value of the files as they were a second ago, or later.
func (f *Files[T]) Get() T {
	if f.mu.TryLock() {
		defer f.mu.Unlock()
		if time.Since(f.looked) >= Every && !f.once {
			f.look()
		}
	}
	return *f.value.Load()
}

func (f *Files[T]) look() {
	f.looked = time.Now()
	switch changed, err := f.read(); {
	case err != nil: // also between the writes of two files
		slog.Error("file-not-renewed", "what", f.what, "files", f.paths, "err", err, "then",
			"going on with what was read before, until it changes")
	case changed:
		slog.Info("file-renewed", "what", f.what, "files", f.paths)
	}
}

// read makes a new value if the files have changed.
func (f *Files[T]) read() (changed bool, err error) {
	texts := make([][]byte, len(f.paths), len(f.paths)+1)
	for i, path := range f.paths {
		text, bad := content(path)
		texts[i], err = text, errors.Join(err, bad)
	}
	now := append(texts, fmt.Append(nil, err))
	if slices.EqualFunc(now, f.last, bytes.Equal) {
		return false, nil
	}
	if f.last = now; err != nil {
		return true, err
	}
	value, err := f.from(texts)
	if err == nil {
		f.value.Store(&value)
	}
	return true, err
}

// content is what a file holds. A directory holds what its files do, and those of the directories
// below, one after the other.
func content(path string) (all []byte, err error) {
	if info, bad := os.Stat(path); bad != nil || !info.IsDir() {
		return os.ReadFile(path)
	}
	err = filepath.WalkDir(path, func(path string, _ fs.DirEntry, err error) error {
		if info, bad := os.Stat(path); err != nil || bad != nil || info.IsDir() {
			return errors.Join(err, bad)
		}
		text, err := os.ReadFile(path)
		all = append(append(all, text...), '\n')
		return err
	})
	return all, err
}

// BOM is what some editors write at the beginning of a file.
const BOM = "\ufeff"

const maxToken = 4096 // a request's head has room for it

// IsToken tells whether a text can be sent as a token: it is ASCII without blanks.
func IsToken(text string) bool {
	return text != "" && len(text) <= maxToken &&
		!strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// Token opens a file with one token: a line of ASCII, without the blanks around it. What is no
// token may be any secret, and is not shown.
func Token(what, path string) (*Files[string], error) {
	return Open(what, func(texts [][]byte) (string, error) {
		text := strings.TrimSpace(strings.TrimPrefix(string(texts[0]), BOM))
		if !IsToken(text) {
			return "", fmt.Errorf("a token is one line of 1 to %d characters of ASCII without "+
				"spaces", maxToken)
		}
		return text, nil
	}, path)
}

// TLS opens the files or the directory of authorities, and the files of a certificate and of its
// key; with makes the value of them. Paths may be empty.
func TLS[T any](what string, with func(*tls.Config) T, ca, cert, key string) (*Files[T], error) {
	if (cert == "") != (key == "") {
		return nil, errors.New("a certificate and its key go together: give both")
	}
	paths := slices.DeleteFunc([]string{ca, cert, key}, func(p string) bool { return p == "" })
	return Open(what, func(texts [][]byte) (value T, err error) {
		cfg := &tls.Config{MinVersion: tls.VersionTLS12}
		for i, text := range texts {
			if err := whole(text); err != nil {
				return value, fmt.Errorf("%s: %w", paths[i], err)
			}
		}
		if ca != "" {
			cfg.RootCAs = x509.NewCertPool()
			if !cfg.RootCAs.AppendCertsFromPEM(texts[0]) {
				return value, fmt.Errorf("%s holds no certificate in PEM", ca)
			}
			texts = texts[1:]
		}
		if cert != "" {
			pair, err := tls.X509KeyPair(texts[0], texts[1])
			if err != nil {
				return value, err
			}
			if end := pair.Leaf.NotAfter; time.Now().After(end) {
				slog.Warn("certificate-expired", "file", cert, "not_after", end.UTC(), "then",
					"it is refused until the file is renewed")
			}
			cfg.Certificates = []tls.Certificate{pair}
		}
		return with(cfg), nil
	}, paths...)
}

// whole refuses what is no PEM, or was cut off: a file that is being written.
func whole(text []byte) error {
	begun := bytes.Count(text, []byte("-----BEGIN "))
	left := begun
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		left--
	}
	if begun == 0 || left != 0 {
		return errors.New("failed to find any PEM data, or its end")
	}
	return nil
}
