package configstore

import (
	"errors"
	"fmt"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// deniedPause is the time between two tries of a denied write that is in the log. It works only
// after someone has granted the permission.
const deniedPause = 5 * time.Second

// addDenial counts a denial of write seq, and tells whether the run of denials has lasted for the
// limit. The run goes on across writes, applied ones as well: so all denied writes of a log
// together hold up the others for [DeniedLimit]. It ends when no other write was denied for that
// long. What counts is how long such writes have been tried, also by several processes: of commands
// each is there for a short time.
func addDenial(d protocol.Denials, seq uint64, now time.Time) (run protocol.Denials, over bool) {
	since := max(0, now.Sub(time.UnixMilli(d.Last)))
	d.For = min(max(d.For, 0), DeniedLimit.Milliseconds()) // a stranger may have written it
	switch {
	case d == protocol.Denials{}, seq != d.Seq && since > DeniedLimit:
		d.For = 0
	default:
		d.For += min(since, 2*deniedPause).Milliseconds()
	}
	d.Seq, d.Last = seq, now.UnixMilli()
	return d, d.For >= DeniedLimit.Milliseconds()
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
