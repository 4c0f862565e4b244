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
// it. A new file is closed to others. Links are followed as [placeOf] says.
func writeWhole(ctx context.Context, name string, data []byte) error {
	p, err := placeOf(name)
	if err != nil {
		return err
	}
	if !p.plain {
		_, err := reading(ctx, func() (struct{}, error) {
			return struct{}{}, writeOver(p, data)
		})
		return unread(err)
	}
	f, err := os.CreateTemp(filepath.Dir(p.at), "."+filepath.Base(p.at)+".*")
	if errors.Is(err, fs.ErrPermission) && p.was != nil {
		return writeOver(p, data) // it may be written, and its directory may not
	}
	if err != nil {
		return err
	}
	if p.was != nil {
		if st, ok := p.was.Sys().(*syscall.Stat_t); ok {
			_ = f.Chown(int(st.Uid), int(st.Gid)) // where this process may
		}
		err = f.Chmod(p.was.Mode().Perm())
	}
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), p.at)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// writeOver writes to what is there, and to nothing that has come in its place.
func writeOver(p place, data []byte) error {
	f, err := p.open(os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}
