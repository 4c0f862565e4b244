package main

import (
	"testing"

	"github.com/spf13/cobra"
)

// TestWhatPrintsJSONTakesBothFormsOfTheFlag walks through all commands: whatever has --json has
// -o json, and they are one setting. With run and elect, --json goes with an order to print.
func TestWhatPrintsJSONTakesBothFormsOfTheFlag(t *testing.T) {
	var walk func(*cobra.Command)
	seen := 0
	walk = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			walk(c)
		}
		f := cmd.Flags()
		asJSON := f.Lookup("json")
		if asJSON == nil || cmd.Name() == "run" || cmd.Name() == "elect" {
			return
		}
		seen++
		if f.ShorthandLookup("o") == nil {
			t.Errorf("%s takes --json, and no -o", cmd.CommandPath())
			return
		}
		for _, step := range []struct{ arg, want string }{{"-ojson", "true"}, {"-otext", "false"},
			{"--format=json", "true"}, {"--json=false", "false"}} {
			if err := f.Parse([]string{step.arg}); err != nil ||
				asJSON.Value.String() != step.want {
				t.Errorf("%s %s: %v, %v", cmd.CommandPath(), step.arg, asJSON.Value, err)
			}
		}
		if err := f.Parse([]string{"-oyaml"}); err == nil {
			t.Errorf("%s takes -o yaml", cmd.CommandPath())
		}
	}
	walk(new(app).root())
	if seen < 20 {
		t.Errorf("%d commands print JSON", seen)
	}
}
