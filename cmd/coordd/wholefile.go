package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// writeWhole makes data the contents of a file: all of it, or the file stays as it was. What is no
// plain file, such as a pipe or /dev/stdout, is written to, until ctx ends: nobody may ever read
// it. A new file is closed to others.
func writeWhole(ctx context.Context, name string, data []byte) error {
	at, was, plain := placeOf(name)
	if !plain {
		_, err := reading(ctx, func() (struct{}, error) {
			return struct{}{}, os.WriteFile(name, data, 0o600)
		})
		return unread(err)
	}
	f, err := os.CreateTemp(filepath.Dir(at), "."+filepath.Base(at)+".*")
	if errors.Is(err, fs.ErrPermission) { // a file that may be written in a directory that may not
		return os.WriteFile(name, data, 0o600)
	}
	if err != nil {
		return err
	}
	if was != nil {
		if st, ok := was.Sys().(*syscall.Stat_t); ok {
			_ = f.Chown(int(st.Uid), int(st.Gid)) // where this process may
		}
		err = f.Chmod(was.Mode().Perm())
	}
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), at)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// placeOf is where a file is, behind links, and what is there; nil: nothing. Plain: it can be
// replaced.
func placeOf(name string) (at string, was fs.FileInfo, plain bool) {
	// /dev/stdout may lead to a plain file, which others write to as well. /dev/shm has plain
	// files.
	clean := filepath.ToSlash(filepath.Clean(name))
	for _, system := range []string{"/dev/", "/proc/"} {
		if strings.HasPrefix(clean, system) && !strings.HasPrefix(clean, "/dev/shm/") {
			return name, nil, false
		}
	}
	if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return name, nil, true
	}
	at, err := filepath.EvalSymlinks(name)
	if err != nil {
		return name, nil, false
	}
	info, err := os.Stat(at)
	if err != nil || !info.Mode().IsRegular() {
		return name, nil, false
	}
	return at, info, true
}
