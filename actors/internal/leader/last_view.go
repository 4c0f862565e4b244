package leader

// lastView is what the views of a prefix have shown in this term, and the highest index of any.
type lastView[S any] struct {
	index uint64
	last  S
}

// wentBack takes in a view. An index that is below an earlier one, with other contents, is that of
// a Consul which was restored or came back empty: the cache is of a past that it does not know.
// With the same contents Consul has forgotten a deletion, as it does after a quarter of an hour:
// the index of a prefix is the largest of its keys and of the deletions that Consul remembers.
func (v *lastView[S]) wentBack(index uint64, now S, same func(x, y S) bool) bool {
	back := index < v.index
	if back && same(now, v.last) {
		return false
	}
	v.index, v.last = index, now
	return back
}
