package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/coordd/coordd/internal/place"
)

// writeWhole makes data the contents of a file: all of it, or the file stays as it was. What is no
// plain file, such as a pipe or /dev/stdout, is written to, until ctx ends: nobody may ever read
// it. A new file is closed to others. Links are followed as [place.Of] says.
func writeWhole(ctx context.Context, name string, data []byte) error {
	p, err := place.Of(name)
	if err != nil {
		return err
	}
	if !p.Plain {
		_, err := reading(ctx, func() (struct{}, error) {
			return struct{}{}, writeOver(p, data)
		})
		return unread(err)
	}
	f, err := os.CreateTemp(filepath.Dir(p.At), "."+filepath.Base(p.At)+".*")
	if errors.Is(err, fs.ErrPermission) && p.Was != nil {
		return writeOver(p, data) // it may be written, and its directory may not
	}
	if err != nil {
		return err
	}
	if p.Was != nil {
		if st, ok := p.Was.Sys().(*syscall.Stat_t); ok {
			_ = f.Chown(int(st.Uid), int(st.Gid)) // where this process may
		}
		err = f.Chmod(p.Was.Mode().Perm())
	}
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), p.At)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// writeOver writes to what is there, and to nothing that has come in its place.
func writeOver(p place.Place, data []byte) error {
	f, err := p.Open(os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}
