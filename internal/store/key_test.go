package store_test

import (
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/store"
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

func TestWhatDoesNotPrintIsRefusedWithItsCharacter(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, s store.Store) {
		for name, says := range unprintable {
			if _, _, err := consul.Client().KV().Get(name, nil); err == nil {
				t.Errorf("%q: Consul answers, and not with 400", name)
			}
			for _, err := range append(byPrefix(t, s, name+"/"), store.CheckKey("name", name)) {
				wantKind(t, err, store.ErrInvalid, false)
				wantText(t, err, says)
			}
		}
		must(t, store.CheckKey("name", "größe 1/日本/%"))
	})
}
