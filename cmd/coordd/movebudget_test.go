package main

import (
	"strings"
	"testing"
)

func TestAMoveBudgetIsANumberOrAShare(t *testing.T) {
	for text, want := range map[string]struct {
		value moveBudget
		shown string
	}{
		"1":     {moveBudget{items: 1}, "1"},
		"1000":  {moveBudget{items: 1000}, "1000"},
		"5%":    {moveBudget{share: 0.05}, "5%"},
		"0.5%":  {moveBudget{share: 0.005}, "0.5%"},
		"100%":  {moveBudget{share: 1}, "100%"},
		"0":     {shown: "give 1 item or more"},
		"-1":    {shown: "give 1 item or more"},
		"1.5":   {shown: "give 1 item or more"},
		"":      {shown: "give 1 item or more"},
		"0%":    {shown: "give a share above 0% and up to 100%"},
		"101%":  {shown: "give a share above 0% and up to 100%"},
		"NaN%":  {shown: "give a share above 0% and up to 100%"},
		"%":     {shown: "give a share above 0% and up to 100%"},
		"5 %":   {shown: "give a share above 0% and up to 100%"},
		"1e99%": {shown: "give a share above 0% and up to 100%"},
	} {
		var got moveBudget
		if err := got.Set(text); err != nil {
			if want.value != (moveBudget{}) || !strings.Contains(err.Error(), want.shown) {
				t.Errorf("%q: %v", text, err)
			}
			continue
		}
		if got != want.value || got.String() != want.shown {
			t.Errorf("%q is %+v, shown as %v", text, got, got.String())
		}
	}
}
