package messages

import (
	"iter"
	"maps"
	"slices"
	"sort"
)

// Table is an immutable map from id to value, in the order of the ids. The zero
// Table is empty. Copying one costs nothing: copies share what nobody can write.
type Table[V any] struct {
	ids    []string
	values []V
}

// TableOf copies m into a table.
func TableOf[V any](m map[string]V) Table[V] {
	ids := slices.Sorted(maps.Keys(m))
	values := make([]V, len(ids))
	for i, id := range ids {
		values[i] = m[id]
	}
	return Table[V]{ids, values}
}

// TableFrom collects pairs into a table. Pairs that come in the order of their
// ids cost no sorting; of two with one id the later wins.
func TableFrom[V any](pairs iter.Seq2[string, V]) Table[V] {
	var t Table[V]
	ordered := true
	for id, value := range pairs {
		ordered = ordered && (len(t.ids) == 0 || t.ids[len(t.ids)-1] < id)
		t.ids = append(t.ids, id)
		t.values = append(t.values, value)
	}
	if ordered {
		return t
	}
	m := make(map[string]V, len(t.ids))
	for i, id := range t.ids {
		m[id] = t.values[i]
	}
	return TableOf(m)
}

// Same tells whether two tables hold the same values under the same ids.
func Same[V comparable](x, y Table[V]) bool {
	return slices.Equal(x.ids, y.ids) && slices.Equal(x.values, y.values)
}

// Len returns the number of ids.
func (t Table[V]) Len() int { return len(t.ids) }

// At returns the i-th id, in order, and its value.
func (t Table[V]) At(i int) (string, V) { return t.ids[i], t.values[i] }

// Find returns the place of id in the order.
func (t Table[V]) Find(id string) (int, bool) {
	i := sort.SearchStrings(t.ids, id)
	return i, i < len(t.ids) && t.ids[i] == id
}

// Get returns the value of id.
func (t Table[V]) Get(id string) (V, bool) {
	if i, ok := t.Find(id); ok {
		return t.values[i], true
	}
	var none V
	return none, false
}

// Has tells whether id is in the table.
func (t Table[V]) Has(id string) bool { _, ok := t.Find(id); return ok }

// All yields ids and values in the order of the ids.
func (t Table[V]) All() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for i, id := range t.ids {
			if !yield(id, t.values[i]) {
				return
			}
		}
	}
}

// IDs yields the ids in order.
func (t Table[V]) IDs() iter.Seq[string] { return slices.Values(t.ids) }

// Map copies the table into a map that the caller may change.
func (t Table[V]) Map() map[string]V {
	m := make(map[string]V, len(t.ids))
	maps.Insert(m, t.All())
	return m
}
