//go:build unix

package output

import (
	"fmt"
	"path/filepath"

	"github.com/coordd/coordd/internal/place"
)

// Kind says where the output of commands goes.
type Kind string

// The kinds.
const (
	Raw    Kind = ""       // the command has this process's own; this package has no part in it
	Prefix Kind = "prefix" // to standard output and error, with id and stream before each line
	File   Kind = "file"   // appended to a file for each item
)

// Config says what becomes of the output. The zero value is Raw.
type Config struct {
	To  Kind
	Dir string // File: an absolute path; CheckDir tells whether it can be used
}

// Validate reports a setting that cannot be.
func (c Config) Validate() error {
	switch c.To {
	case Raw, Prefix:
	case File:
		if !filepath.IsAbs(c.Dir) {
			return fmt.Errorf("output: directory %q: give an absolute path", c.Dir)
		}
	default:
		return fmt.Errorf("output: %q: give prefix or file", c.To)
	}
	return nil
}

// CheckDir makes the directory of files where there is none, and returns its path without links. It
// refuses one in which another user could put something in the way. The error says what to do.
func CheckDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return place.Private(dir)
}
