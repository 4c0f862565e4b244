package dispatch

// ParsePath is parsePath, for its tests.
func ParsePath(escaped string) (item string, all, ok bool) {
	t := parsePath(escaped)
	return t.item, t.all, t.ok
}

// Climbs is climbs, for its tests.
func Climbs(escaped string) bool { return climbs(escaped) }

// InFlight is how many requests are under way, and how many of them to a member.
func (d *Dispatcher) InFlight(member string) (all, to int) {
	d.places.mu.Lock()
	defer d.places.mu.Unlock()
	return d.places.all, d.places.each[member]
}

// HeadBytes is how much the head of an answer may have.
const HeadBytes = headBytes

// Check tells whether a connection may be made to an address.
func (c Config) Check(address string) error {
	return reachOf(c.withDefaults()).control("tcp", address, nil)
}
