package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"

	"github.com/coordd/coordd/supervisor"
)

// A job that joins an error for each of its rows returns thousands.
func TestManyJoinedErrorsAreReadAndAnEscalateAmongThemIsFound(t *testing.T) {
	for name, ask := range map[string]bool{"restarted": false, "escalates": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				starts := 0
				s, err := supervisor.New(
					"root",
					supervisor.Tree{MaxRestarts: 1, Children: []supervisor.Child{
						{Name: "job", Run: func(context.Context) error {
							starts++
							errs := []error{io.EOF}
							if ask {
								errs = []error{supervisor.Escalate(io.EOF)}
							}
							for i := range 5000 {
								errs = append(errs, fmt.Errorf("row %d", i))
							}
							return errors.Join(errs...)
						}},
					}},
					quiet,
				)
				if err != nil {
					t.Fatal(err)
				}
				want := 2
				if ask {
					want = 1
				}
				if err := s.Run(t.Context()); !errors.Is(err, io.EOF) || starts != want {
					t.Errorf("%d starts, want %d; the cause was lost: %.80v", starts, want, err)
				}
			})
		})
	}
}
