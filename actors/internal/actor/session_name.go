package actor

// SessionName is the name of a member's session.
func (b *Base) SessionName(member string) string { return b.Service + "/" + member }
