//go:build unix

// Package place finds where the path of a directory leads, and goes by no link that another user has
// put into a directory that is shared with him:
//
//	p, err := place.MakeDir("/tmp/coordd-0", false)
package place

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Place is where a directory is, behind links.
type Place struct {
	At   string
	Was  fs.FileInfo // what is there; nil: nothing
	Made []string    // by [MakeDir]: the directories that were not there

	missing string // the first part of At that is not there
}

// ErrMoved: between the look at a place and the opening another file or a link has come there.
var ErrMoved = errors.New("another file has come in its place: try again, or give a path in a " +
	"directory of your own")

// maxLinks is how many links a path leads through at most, as in Linux.
const maxLinks = 40

// Dir follows the path of a directory and returns it without links. In a directory with the sticky
// bit that its group or all may write to, such as /tmp, it refuses a link or a directory of another
// user than this one, root and the directory's owner, as Linux does with fs.protected_symlinks.
// What is used by its path for long is no stranger's directory either: he could put a link there
// later. Parts that are missing are none of his either when [MakeDir] has made them.
func Dir(name string) (string, error) {
	p, err := follow(name)
	return p.At, err
}

// MakeDir is [Dir] that makes the directory where nothing is, for its user alone, and with parents
// those that it is in. Each is made in one that was looked at, and is looked at itself before
// anything is made in it: what somebody else puts there meanwhile is refused. What is there is
// returned, and need not be a directory.
func MakeDir(name string, parents bool) (Place, error) { return makeDir(name, parents, os.Mkdir) }

func makeDir(name string, parents bool, mkdir func(string, fs.FileMode) error) (Place, error) {
	var made []string
	for met := 0; ; {
		// From the beginning each time. What was seen to be no stranger's stays where it is.
		p, err := follow(name)
		if p.Made = made; err != nil || p.missing == "" {
			return p, err
		}
		if p.missing != p.At && !parents {
			return Place{}, fmt.Errorf("%w: make its parent, or give another directory",
				&fs.PathError{Op: "mkdir", Path: p.At, Err: syscall.ENOENT})
		}
		err = mkdir(p.missing, 0o700)
		if errors.Is(err, fs.ErrExist) && met < maxMet {
			met++ // somebody was faster
		} else if err != nil {
			return Place{}, fmt.Errorf("%w: give a directory that this user may make", err)
		}
		if !slices.Contains(made, p.missing) {
			made = append(made, p.missing)
		}
	}
}

// maxMet is how often somebody else may be faster than MakeDir: who makes a directory and removes
// it all the time does not keep it.
const maxMet = 100

// OpenDir opens a directory as [MakeDir] finds or makes it. What is opened is what is at its path
// then, and stays the same one when a link comes there. The error is [ErrMoved] where things come
// and go meanwhile.
func OpenDir(name string) (*os.File, error) {
	at := name
	var err error
	for range 3 {
		var f *os.File
		// Opened first: while it is open no other file has its number.
		f, err = os.OpenFile(at, syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
		p, lost := MakeDir(name, false)
		if lost == nil && err == nil && same(f, p.Was) {
			return f, nil
		}
		if err == nil {
			f.Close()
			err = fmt.Errorf("%s: %w", at, ErrMoved)
		}
		if lost != nil {
			return nil, lost
		}
		at = p.At
	}
	return nil, err
}

func same(f *os.File, as fs.FileInfo) bool {
	now, err := f.Stat()
	return err == nil && os.SameFile(now, as)
}

// follow follows the path of a directory, of which the last parts may be missing.
func follow(name string) (Place, error) {
	at, rest := rootOf(name), name
	links := 0
	for {
		part, more, some := strings.Cut(strings.TrimLeft(rest, "/"), "/")
		next := filepath.Join(at, part) // at has no links, so ".." is what is above it
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return Place{At: filepath.Join(next, more), missing: next}, nil
		case err != nil:
			if e, ok := errors.AsType[*fs.PathError](err); ok {
				err = &fs.PathError{Op: "open", Path: name, Err: e.Err}
			}
			return Place{}, err
		}
		link := info.Mode()&fs.ModeSymlink != 0
		if err := notAStrangers(next, info); err != nil {
			return Place{}, err
		}
		switch {
		case link:
			if links++; links > maxLinks {
				return Place{}, &fs.PathError{Op: "open", Path: name, Err: syscall.ELOOP}
			}
			target, err := os.Readlink(next)
			if err != nil {
				return Place{}, err
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
			return Place{At: next, Was: info}, nil
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
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		kind = "link"
	case info.IsDir():
		kind = "directory"
	}
	return fmt.Errorf("%s is a %s of user %d, in a directory that others may write to: give "+
		"another name, or a directory of your own", path, kind, whose)
}

// strangers tells whether what is in a directory belongs to somebody who was only let in there.
// Host is the directory's owner.
func strangers(dir fs.FileMode, host, whose, us int) bool {
	return dir&fs.ModeSticky != 0 && dir.Perm()&0o022 != 0 && whose != us && whose != host &&
		whose != root
}

// root may put a link anywhere.
const root = 0

func ownerOf(info fs.FileInfo) (int, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}
