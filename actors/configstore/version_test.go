package configstore

import (
	"fmt"
	"testing"

	"github.com/coordd/coordd/internal/store"
)

func snapshotOf(s Snapshot, index uint64, keys ...string) Snapshot {
	v := watchedView{view: store.View{Index: index}}
	for _, key := range keys {
		v.entries = append(v.entries, &Entry{Key: key, Index: uint64(len(v.entries) + 1)})
	}
	return s.merge(v)
}

func TestTheVersionOfAPrefixIsTheSameWhileItsKeysAre(t *testing.T) {
	one := snapshotOf(Snapshot{}, 5, "a/1", "a/2", "b")
	elsewhere := snapshotOf(Snapshot{}, 9, "a/1", "a/2")
	more := snapshotOf(one, 9, "a/1", "a/2", "b", "c")
	first := one.Version("a/")
	for what, same := range map[string]bool{
		"a/ of two stores":               first == elsewhere.Version("a/"),
		"a/, asked for once more":        first == one.Version("a/"),
		"a/, with another key beside it": one.Version("a/") == more.Version("a/"),
		"no key":                         one.Version("d") == Snapshot{}.Version(""),
	} {
		if !same {
			t.Errorf("%s: the version is another one", what)
		}
	}
	for what, same := range map[string]bool{
		"all of two stores that differ": one.Version("") == elsewhere.Version(""),
		"all, with one more":            one.Version("") == more.Version(""),
		"a key less": one.Version("a/") ==
			snapshotOf(one, 9, "a/1", "b").Version("a/"),
		"another index": one.Version("a/") ==
			snapshotOf(one, 9, "0", "a/1", "a/2", "b").Version("a/"),
		"an own write": one.Version("b") == one.apply([]ownWrite{{index: 7, key: "b",
			entry: &Entry{Key: "b", Index: 7}}}).Version("b"),
	} {
		if same {
			t.Errorf("%s: the version is the same", what)
		}
	}
}

// Whoever follows a prefix asks each snapshot for its version.
func TestTheVersionOfAPrefixIsFoundOutOnceForEachSnapshot(t *testing.T) {
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprintf("k%04d", i)
	}
	s := snapshotOf(Snapshot{}, 5, keys...)
	want := s.Version("k")
	for what, is := range map[string]Snapshot{"the same": s,
		"after a view with nothing new": snapshotOf(s, 6, keys...)} {
		if n := testing.AllocsPerRun(10, func() {
			if is.Version("k") != want {
				t.Error("it is another one")
			}
		}); n > 10 {
			t.Errorf("%s: asking again takes %v allocations: each key is looked at", what, n)
		}
	}
	for i := range 2 * rememberedVersions { // asked for by anybody
		s.Version(keys[i])
	}
	if n := len(s.versions.number); n > rememberedVersions {
		t.Errorf("%d versions are remembered", n)
	}
}
