package member

import (
	"errors"
	"testing"

	"github.com/coordd/coordd/supervisor"
)

// lasting is a host's error that is returned again and again, and keeps what was reported of it.
type lasting struct{ reported error }

func (l *lasting) Error() string { return "it fails as before: " + l.reported.Error() }
func (l *lasting) Unwrap() error { return l.reported }

// The report of a member has what its work returned last.
func TestAHostsErrorThatWrapsWhatWasReportedOfItIsReplaced(t *testing.T) {
	why := &lasting{errors.New("nothing yet")}
	why.reported = hostsOwn(why)
	if err := hostsOwn(why); !errors.Is(err, supervisor.ErrUnreadable) {
		t.Errorf("it is %v, want %v", err, supervisor.ErrUnreadable)
	}
}
