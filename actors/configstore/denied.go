package configstore

import (
	"errors"
	"fmt"
	"time"

	"github.com/coordd/coordd/internal/store"
)

// deniedPause is the time between two tries of a denied write that is in the log. It works only
// after someone has granted the permission.
const deniedPause = 5 * time.Second

// denials is a run of denials of logged writes whose callers had gone, by a token that could write
// the marker. The run goes on across writes, applied ones as well: so all denied writes of a log
// together hold up the others for [DeniedLimit]. It ends when none was denied for that long.
type denials struct{ first, last time.Time }

// add counts a denial, and tells whether the run has lasted for the limit.
func (d *denials) add(now time.Time) bool {
	if now.Sub(d.last) > DeniedLimit {
		d.first = now
	}
	d.last = now
	return now.Sub(d.first) >= DeniedLimit
}

// denial says which write was denied last, for [Queue].
type denial struct {
	seq uint64
	err error
}

// givenUp is the error of a write that was denied for too long.
func givenUp(err error) error {
	if !errors.Is(err, store.ErrDenied) {
		return err // nobody can tell whether it was applied
	}
	return fmt.Errorf("%w (it was tried again in vain, and others waited behind it: grant it to "+
		"the token, and write it again)", err)
}
