package store_test

import (
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/keys"
)

// byPrefix are the errors of all reads of a prefix.
func byPrefix(t *testing.T, s store.Store, prefix string) []error {
	_, _, list := s.List(t.Context(), prefix, store.Default)
	_, _, names := s.ListKeys(t.Context(), prefix, "")
	_, watch := store.WatchPrefix(s, prefix).Next(t.Context())
	return []error{list, names, watch}
}

func TestAPrefixThatDoesNotEndInASlashIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, _ *devconsul.Server, s store.Store) {
		_, err := s.Txn(t.Context(), store.DeleteTree("assignments/m1"))
		for _, err := range append(byPrefix(t, s, "assignments/m1"), err) {
			wantKind(t, err, store.ErrInvalid, false)
			wantText(t, err, "m1 and m10")
		}
	})
}

func TestAKeyThatFitsIntoNoRequestIsRefusedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, _ *devconsul.Server, s store.Store) {
		_, _, _, err := s.Get(t.Context(), strings.Repeat("%", 400<<10), store.Consistent)
		wantKind(t, err, store.ErrInvalid, false)
		wantText(t, err, "409600 bytes")
	})
}

// unprintable are names that Consul's HTTP API refuses in a path.
var unprintable = map[string]string{"a\u00a0b": "U+00A0", "a\u00adb": "U+00AD",
	"a\u200bb": "U+200B", "a\u202eb": "U+202E", "a\ue000b": "U+E000"}

// Consul takes them in transactions, so there are such keys.
func TestASingleKeyThatDoesNotPrintIsReadAndDeleted(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, s store.Store) {
		ctx, kv := t.Context(), store.NewKV(s, counter)
		for key := range unprintable {
			if _, _, err := consul.Client().KV().Get(key, nil); err == nil {
				t.Errorf("%q: Consul answers, and not with 400", key)
			}
			must(t, store.CheckKey("key", key))
			_, found, index, err := s.Get(ctx, key, store.Default)
			if err != nil || found || index != 1 {
				t.Errorf("%q before it is written: found %v, index %d, %v", key, found, index, err)
			}
			must(t, keys.Put(ctx, s, key, []byte("v"), 7))
			e, found, index, err := s.Get(ctx, key, store.Consistent)
			if err != nil || !found || e.Key != key || string(e.Value) != "v" || e.Flags != 7 ||
				index != e.ModifyIndex {
				t.Errorf("%q: %+v, found %v, index %d, %v", key, e, found, index, err)
			}
			must(t, kv.Put(ctx, key, nil))
			if v, err := kv.Get(ctx, key); err != nil || v == nil || len(v) != 0 {
				t.Errorf("%q: an empty value is %q, %v", key, v, err)
			}
			must(t, kv.Delete(ctx, key))
			_, err = kv.Get(ctx, key)
			wantKind(t, err, store.ErrNotFound, false)
		}
	})
}

func TestWhatHasToPrintIsRefusedWithItsCharacter(t *testing.T) {
	bubble(t, func(t *testing.T, _ *devconsul.Server, s store.Store) {
		for name, says := range unprintable {
			for _, err := range append(byPrefix(t, s, name+"/"), store.CheckPrints("name", name)) {
				wantKind(t, err, store.ErrInvalid, false)
				wantText(t, err, says, "another character")
			}
		}
		must(t, store.CheckPrints("name", "größe 1/日本/%"))
	})
}
