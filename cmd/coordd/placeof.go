package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// place is where a file is, behind links.
type place struct {
	at    string
	was   fs.FileInfo // what is there; nil: nothing, or it is the system's
	plain bool        // it can be replaced
}

// open opens what [placeOf] has looked at. Flags are those of os.OpenFile; os.O_CREATE makes only
// what was not there, with perm. The error is [errMoved] where something else has come since.
func (p place) open(flags int, perm fs.FileMode) (*os.File, error) {
	if p.was == nil && !p.plain { // the system's
		return os.OpenFile(p.at, flags, perm)
	}
	create, truncate := flags&os.O_CREATE, flags&os.O_TRUNC // not before it is known what is there
	flags &^= create | truncate
	if p.was == nil && create != 0 {
		flags |= create | os.O_EXCL
	}
	if p.plain { // or a pipe that has come would be waited for
		flags |= syscall.O_NONBLOCK
	}
	f, err := os.OpenFile(p.at, flags|syscall.O_NOFOLLOW, perm)
	if p.was == nil || err != nil {
		if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ELOOP) ||
			p.plain && errors.Is(err, syscall.ENXIO) {
			err = fmt.Errorf("%w: %w", errMoved, err)
		}
		return f, err
	}
	now, err := f.Stat()
	// A number is free for another file as soon as the first one is gone.
	if err == nil && (!os.SameFile(now, p.was) || now.Mode().Type() != p.was.Mode().Type()) {
		err = fmt.Errorf("%s: %w", p.at, errMoved)
	}
	if err == nil && truncate != 0 && p.plain {
		err = f.Truncate(0)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// errMoved: between the look at a place and the opening another file or a link has come there.
var errMoved = errors.New("another file has come in its place: try again, or give a path in a " +
	"directory of your own")

// maxLinks is how many links a path leads through at most, as in Linux.
const maxLinks = 40

// placeOf follows a path. In a directory with the sticky bit that its group or all may write to,
// such as /tmp, it refuses a link, and at the end a file, of another user than this one and the
// directory's owner, as Linux does with fs.protected_symlinks and fs.protected_regular: he would
// choose what is written to, or get it. In a directory without that bit whoever may write to it
// may do all that with this user's own files.
func placeOf(name string) (place, error) {
	if strings.HasSuffix(name, "/") {
		return place{}, &fs.PathError{Op: "open", Path: name, Err: syscall.EISDIR}
	}
	at, rest := rootOf(name), name
	links := 0
	for {
		if systems(filepath.Join(at, rest)) {
			return place{at: filepath.Join(at, rest)}, nil
		}
		part, more, some := strings.Cut(strings.TrimLeft(rest, "/"), "/")
		next := filepath.Join(at, part) // at has no links, so ".." is what is above it
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist) && !some:
			return place{at: next, plain: true}, nil
		case err != nil:
			if e, ok := errors.AsType[*fs.PathError](err); ok {
				err = &fs.PathError{Op: "open", Path: name, Err: e.Err}
			}
			return place{}, err
		}
		link := info.Mode()&fs.ModeSymlink != 0
		if link || !info.IsDir() {
			if err := notAStrangers(next, info); err != nil {
				return place{}, err
			}
		}
		switch {
		case link:
			if links++; links > maxLinks {
				return place{}, &fs.PathError{Op: "open", Path: name, Err: syscall.ELOOP}
			}
			target, err := os.Readlink(next)
			if err != nil {
				return place{}, err
			}
			if filepath.IsAbs(target) {
				at = rootOf(target)
			}
			if rest = target; some {
				rest += "/" + more
			}
		case some:
			at, rest = next, more
		default:
			return place{next, info, info.Mode().IsRegular()}, nil
		}
	}
}

// rootOf is where a path begins.
func rootOf(path string) string {
	if filepath.IsAbs(path) {
		return "/"
	}
	return ""
}

// systems tells whether a path leads to what is no file on a disk. /dev/stdout may lead to a plain
// file, which others write to as well. /dev/shm has plain files.
func systems(path string) bool {
	path, err := filepath.Abs(path)
	return err == nil && !strings.HasPrefix(path, "/dev/shm/") &&
		(strings.HasPrefix(path, "/dev/") || strings.HasPrefix(path, "/proc/"))
}

// notAStrangers refuses what another user has put into a directory that is shared with him.
func notAStrangers(path string, info fs.FileInfo) error {
	dir := filepath.Dir(path)
	shared, err := os.Stat(dir)
	if err != nil {
		return err
	}
	whose, ok := ownerOf(info)
	host, known := ownerOf(shared)
	if !ok || !known || !strangers(shared.Mode(), host, whose, os.Geteuid()) {
		return nil
	}
	kind := "file"
	if info.Mode()&fs.ModeSymlink != 0 {
		kind = "link"
	}
	return fmt.Errorf("%s is a %s of user %d, in a directory that others may write to: give another "+
		"name, or a directory of your own", path, kind, whose)
}

// strangers tells whether what is in a directory belongs to somebody who was only let in there.
// Host is the directory's owner.
func strangers(dir fs.FileMode, host, whose, us int) bool {
	return dir&fs.ModeSticky != 0 && dir.Perm()&0o022 != 0 && whose != us && whose != host
}

func ownerOf(info fs.FileInfo) (int, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}
