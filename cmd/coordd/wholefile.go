package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// writeWhole makes data the contents of a file: all of it, or the file stays as it was. What is no
// plain file, such as a pipe or /dev/stdout, is written to, until ctx ends: nobody may ever read
// it. A new file is closed to others. Links are followed.
func writeWhole(ctx context.Context, name string, data []byte) error {
	at, err := filepath.EvalSymlinks(name)
	if errors.Is(err, fs.ErrNotExist) {
		at, err = name, nil
	}
	if err != nil {
		return err
	}
	was, err := os.Stat(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	writeOver := func() error { return os.WriteFile(at, data, 0o600) }
	if was != nil && !was.Mode().IsRegular() {
		_, err := reading(ctx, func() (struct{}, error) { return struct{}{}, writeOver() })
		return unread(err)
	}
	f, err := os.CreateTemp(filepath.Dir(at), "."+filepath.Base(at)+".*")
	if errors.Is(err, fs.ErrPermission) && was != nil {
		return writeOver() // it may be written, and its directory may not
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
