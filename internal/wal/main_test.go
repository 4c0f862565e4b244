package wal_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/coordd/coordd/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var must = testkit.Must
