package actor

import (
	"strings"

	"github.com/coordd/coordd/internal/protocol"
)

// A stranger's key may name the session of a member that lives: a record that it locks with it, an
// ack or an assignment of somebody else's. Whose a session is shows by its name, which is given
// when it is made and never changes. A session that is another member's says nothing of this one.

// SessionName is the name of a member's session.
func (b *Base) SessionName(member string) string { return b.Service + "/" + member }

// ForeignSession tells whether a session of this name is that of a member other than member. A
// session whose name is of another form may be anybody's.
func (b *Base) ForeignSession(name, member string) bool {
	id, ok := strings.CutPrefix(name, b.SessionName(""))
	return ok && id != member && protocol.CheckMemberID(id) == nil
}
