//go:build unix

package output

import (
	"errors"
	"fmt"
	"path/filepath"
)

// Kind says where the output of commands goes.
type Kind string

// The kinds.
const (
	Raw     Kind = ""        // the command has this process's own; this package has no part in it
	Prefix  Kind = "prefix"  // to standard output and error, with id and stream before each line
	File    Kind = "file"    // appended to a file for each item
	Journal Kind = "journal" // to journald, with the command's variables as fields
)

// JournalSocket is where journald listens.
const JournalSocket = "/run/systemd/journal/socket"

// BurstSeconds is how many seconds' worth of lines an item may write at once.
const BurstSeconds = 10

// Config says what becomes of the output. The zero value is Raw.
type Config struct {
	To  Kind
	Dir string // File: an absolute path; CheckDir tells whether it can be used
	// Socket is where the journal listens. Default: JournalSocket.
	Socket string
	// Rate is how many lines a second are written of one item. 0 means all.
	Rate int
	// Terminal tells of standard output and of standard error whether somebody looks at them there:
	// then prefixes are aligned and coloured.
	Terminal [2]bool
}

// Validate reports a setting that cannot be.
func (c Config) Validate() error {
	switch c.To {
	case Raw:
		if c.Rate != 0 {
			return errors.New("output: raw output has no rate: it does not pass through here")
		}
	case File:
		if !filepath.IsAbs(c.Dir) {
			return fmt.Errorf("output: directory %q: give an absolute path", c.Dir)
		}
	case Prefix, Journal:
	default:
		return fmt.Errorf("output: %q: give prefix, file or journal", c.To)
	}
	if c.Rate < 0 {
		return fmt.Errorf("output: rate %d: give the lines a second, or 0 for all", c.Rate)
	}
	return nil
}
