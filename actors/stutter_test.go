package actors_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/routing"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/supervisor"
)

// No error text says a word twice in a row. Every setting is wrong here.
func TestNoErrorTextStutters(t *testing.T) {
	texts := map[string]error{"a service alone": actors.Config{Service: "a b/"}.Validate()}
	for _, bad := range []string{"", "a/b\n", strings.Repeat("x", 1000)} {
		var cfg actors.Config
		var wrong func(v reflect.Value)
		wrong = func(v reflect.Value) {
			for i := range v.NumField() {
				switch f := v.Field(i); {
				case f.Kind() == reflect.Struct:
					wrong(f)
				case f.Kind() == reflect.String:
					f.SetString(bad)
				case f.CanInt():
					f.SetInt(-2)
				case f.CanFloat():
					f.SetFloat(-1)
				}
			}
		}
		wrong(reflect.ValueOf(&cfg).Elem())
		cfg.Tags = []string{bad}
		texts["settings "+bad] = cfg.Validate()
		texts["member "+bad] = protocol.CheckMemberID(bad)
		texts["item "+bad] = protocol.CheckID("item id", bad)
		_, texts["ack "+bad] = protocol.ParseAck([]byte("{" + bad))
		_, texts["term "+bad] = protocol.ParseTerm([]byte("{" + bad))
		_, texts["leader state "+bad] = protocol.ParseLeaderState([]byte("{" + bad))
	}
	_, texts["a client of a service"] = routing.New(routing.Config{Service: "a b/"})
	for name, run := range map[string]func() error{
		"error": func() error { return errors.New("boom") }, "panic": func() error { panic("boom") },
		"asks": func() error { return supervisor.Escalate(errors.New("boom")) },
	} {
		inner := supervisor.Tree{MaxRestarts: 1, Children: []supervisor.Child{{Name: "child",
			Run:     func(context.Context) error { return run() },
			Backoff: supervisor.Constant(time.Millisecond)}}}
		tree, err := supervisor.New("top", supervisor.Tree{MaxRestarts: 1,
			Children: []supervisor.Child{{Name: "inner", Tree: &inner}}},
			supervisor.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		err = tree.Run(t.Context())
		texts["a child's "+name], texts["in full "+name] = err, fmt.Errorf("%+v", err)
	}
	for name, err := range texts {
		if err == nil {
			t.Errorf("%.40q: nothing is wrong", name)
		} else if twice := testkit.Stutter(err.Error()); twice != "" {
			t.Errorf("%.40q says %.40q twice: %.300s", name, twice, err)
		}
	}
}
