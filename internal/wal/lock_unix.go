//go:build unix

package wal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
)

// lockOpen locks an open file until it is closed, also by the end of the process.
func lockOpen(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrInUse
	}
	return err
}

// lockFile takes the lock of a directory, which the kernel frees when the process ends, however it
// does.
func lockFile(path string) (*os.File, error) {
	f, err := OpenFile(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err := lockOpen(f); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(f, 64))
		f.Close()
		if errors.Is(err, ErrInUse) {
			return nil, fmt.Errorf("%w (pid %s): give each process a directory of its own",
				ErrInUse, strings.TrimSpace(string(holder)))
		}
		return nil, err
	}
	// For people only.
	if err := f.Truncate(0); err == nil {
		_, _ = fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	return f, nil
}
