package store_test

import (
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/store"
)

func TestAPrefixThatDoesNotEndInASlashIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, _ *devconsul.Server, s *store.Store) {
		ctx := t.Context()
		_, _, err := s.List(ctx, "assignments/m1", store.Default)
		wantKind(t, err, store.ErrInvalid, false)
		wantText(t, err, "m1 and m10")
		_, err = s.ListKeys(ctx, "assignments/m1", "")
		wantKind(t, err, store.ErrInvalid, false)
		_, err = s.PrefixIndex(ctx, "assignments/m1")
		wantKind(t, err, store.ErrInvalid, false)
		_, err = s.WatchPrefix("assignments/m1").Next(ctx)
		wantKind(t, err, store.ErrInvalid, false)
		_, err = s.Txn(ctx, store.DeleteTree("assignments/m1"))
		wantKind(t, err, store.ErrInvalid, false)
	})
}

func TestAKeyThatFitsIntoNoRequestIsRefusedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, _ *devconsul.Server, s *store.Store) {
		_, _, _, err := s.Get(t.Context(), strings.Repeat("%", 400<<10), store.Consistent)
		wantKind(t, err, store.ErrInvalid, false)
		wantText(t, err, "409600 bytes")
	})
}
