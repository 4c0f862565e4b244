package configstore

import (
	"testing"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

func snapshotOf(s Snapshot, index uint64, keys ...string) Snapshot {
	known, _ := protocol.KeysOf("demo")
	v := store.View{Index: index}
	for i, key := range keys {
		v.Entries = append(v.Entries, store.Entry{Key: known.ConfigKey(key), CreateIndex: 1,
			ModifyIndex: uint64(i + 1)})
	}
	return s.next(known, v)
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
	} {
		if same {
			t.Errorf("%s: the version is the same", what)
		}
	}
}
