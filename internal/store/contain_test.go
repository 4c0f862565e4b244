package store_test

import (
	"errors"
	"net/http"
	"runtime"
	"testing"

	"github.com/coordd/coordd/internal/store"
)

// quarrelsome is a value whose text cannot be had.
type quarrelsome struct{}

func (q quarrelsome) String() string { panic(q) }

func TestAContainedCallWhoseTransportFailsHasAnOutcomeThatIsNotKnown(t *testing.T) {
	for name, fails := range map[string]func(){
		"panics":                 func() { panic("transport") },
		"panics with an error":   func() { panic(http.ErrAbortHandler) },
		"divides by nothing":     func() { var none []int; _ = none[len(none)] },
		"panics with a quarrel":  func() { panic(quarrelsome{}) },
		"ends its own goroutine": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			s := over(t, tripper(func(*http.Request) (*http.Response, error) {
				fails()
				return nil, errors.New("it goes on")
			}), func(c *store.Config) { c.Contained = true })
			_, err := s.Txn(t.Context(), store.Set("x", nil, 0))
			wantKind(t, err, store.ErrUnreachable, true)
		})
	}
}
