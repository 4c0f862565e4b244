//go:build unix

package output

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/coordd/coordd/internal/place"
	"golang.org/x/sys/unix"
)

const (
	// fileTurns bounds the threads that a hanging disk takes away.
	fileTurns = 4
	// maxName is how long a file name may be, in bytes.
	maxName   = 255
	extension = ".log"
)

// files appends lines to a file for each item. It opens the file for each write: so nothing has to
// be told when it is renamed, and 10,000 silent items hold no descriptor of theirs.
type files struct {
	turns
	dir string
}

func (f *files) line(t *turn, s *source, text []byte, ends bool) {
	open := s.open
	if n := len(t.out); n > 0 {
		open = t.out[n-1] != '\n'
	}
	if open && s.gap {
		t.out = append(t.out, '\n')
	}
	s.gap = false
	t.out = append(t.out, text...)
	if ends {
		t.out = append(t.out, '\n')
	}
	if t.lines++; len(t.out) >= turnSize {
		f.flush(t, s)
	}
}

func (f *files) flush(t *turn, s *source) {
	if len(t.out) > 0 {
		n, err := appendFile(f.dir, fileName(s.item), t.out)
		if n > 0 {
			s.open = t.out[n-1] != '\n'
		}
		if err != nil {
			t.fail(t.lines-bytes.Count(t.out[:n], []byte{'\n'}), err)
			s.gap = true
		}
	}
	t.out, t.lines = t.out[:0], 0
}

// appendFile refuses what another user could have put there. Where a cleaner of /tmp has taken the
// directory away it is made anew.
func appendFile(dir, name string, text []byte) (n int, err error) {
	path := filepath.Join(dir, name)
	d, err := place.OpenDir(dir)
	if err != nil {
		return 0, err
	}
	defer d.Close()
	fd, err := unix.Openat(int(d.Fd()), name, unix.O_WRONLY|unix.O_APPEND|unix.O_CREAT|
		unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0o600)
	if errors.Is(err, unix.ELOOP) {
		return 0, fmt.Errorf("%s is a symbolic link: remove it", path)
	}
	if err != nil {
		return 0, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() {
		if bad := unix.Close(fd); bad != nil && err == nil {
			err = &os.PathError{Op: "close", Path: path, Err: bad}
		}
	}()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != os.Geteuid() {
		return 0, fmt.Errorf("%s is not a plain file of user %d: remove it", path, os.Geteuid())
	}
	if n, err = writeAll(fd, text); err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return n, err
}

// fileName is a name of its own for each item. What is no letter or digit of ASCII, nor one of
// "._-@+=,:", is escaped as in a URL, and so is a dot at the beginning. Of a name that is too long
// the end is replaced by a hash.
func fileName(item string) string {
	var b strings.Builder
	for i := range len(item) {
		switch c := item[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9',
			i > 0 && c == '.', strings.IndexByte("_-@+=,:", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	name := b.String()
	if len(name)+len(extension) > maxName {
		sum := fmt.Sprintf("%%~%x", sha256.Sum256([]byte(item))) // no escape begins like this
		name = name[:maxName-len(extension)-len(sum)] + sum
	}
	return name + extension
}

// CheckDir makes the directory of files where there is none, and returns its path without links. It
// refuses one in which another user could put something in the way, or to which his link leads: see
// [place.MakeDir]. The error says what to do.
func CheckDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	p, err := place.MakeDir(dir, false)
	if err != nil {
		return "", err
	}
	dir = p.At
	st, ok := p.Was.Sys().(*syscall.Stat_t)
	switch {
	case !p.Was.IsDir():
		return "", fmt.Errorf("%s is no directory: remove it, or give another one", dir)
	case ok && int(st.Uid) != os.Geteuid():
		return "", fmt.Errorf("%s belongs to user %d and not to %d: give a directory of this user",
			dir, st.Uid, os.Geteuid())
	case p.Was.Mode().Perm()&0o022 != 0:
		return "", fmt.Errorf("others may write to %s (mode %04o): chmod go-w it, or give another "+
			"one", dir, p.Was.Mode().Perm())
	}
	if err := unix.Access(dir, unix.R_OK|unix.W_OK|unix.X_OK); err != nil {
		return "", &os.PathError{Op: "read and write to", Path: dir, Err: err}
	}
	return dir, nil
}
