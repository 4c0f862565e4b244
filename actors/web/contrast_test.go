package web

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// luminance is the relative luminance of a colour, #rrggbb, as WCAG 2 has it.
func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	n, err := strconv.ParseUint(strings.TrimPrefix(colour, "#"), 16, 32)
	if err != nil || len(colour) != 7 {
		t.Fatalf("%q is no colour like #rrggbb", colour)
	}
	part := func(c uint64) float64 {
		v := float64(c&0xff) / 255
		if v <= 0.04045 {
			return v / 12.92
		}
		return math.Pow((v+0.055)/1.055, 2.4)
	}
	return 0.2126*part(n>>16) + 0.7152*part(n>>8) + 0.0722*part(n)
}

func contrast(t *testing.T, x, y string) float64 {
	t.Helper()
	a, b := luminance(t, x), luminance(t, y)
	return (max(a, b) + 0.05) / (min(a, b) + 0.05)
}

var (
	rootRule = regexp.MustCompile(`:root \{([^}]*)\}`)
	property = regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]{6});`)
)

// Text has 4.5 : 1 and what is seen without words 3 : 1, as level AA of WCAG 2 asks for: in both
// schemes, for each pair of colours that the page puts on one another.
func TestThePagesColoursHaveEnoughContrast(t *testing.T) {
	style, err := pageFiles.ReadFile("page/page.css")
	must(t, err)
	rules := rootRule.FindAllStringSubmatch(string(style), -1)
	if len(rules) != 2 {
		t.Fatalf("%d schemes, want a light and a dark one", len(rules))
	}
	kinds := []string{"run", "start", "stop", "wait", "loop", "free", "good"}
	text := [][2]string{{"ink", "back"}, {"ink", "card"}, {"soft", "back"}, {"soft", "card"},
		{"run-ink", "card"}, {"back", "ink"}} // of what is not known to run, and of the tip
	seen := [][2]string{}
	for _, kind := range kinds {
		text = append(text, [2]string{kind + "-ink", kind + "-ground"})
		// tiles, dots and the edges of banners; the bar lies on a line
		seen = append(seen, [2]string{kind, "card"}, [2]string{kind, "back"})
	}
	for i, rule := range rules {
		scheme := []string{"light", "dark"}[i]
		colours := map[string]string{}
		for _, m := range property.FindAllStringSubmatch(rule[1], -1) {
			colours[m[1]] = m[2]
		}
		hold := func(pairs [][2]string, least float64) {
			for _, p := range pairs {
				if r := contrast(t, colours[p[0]], colours[p[1]]); r < least {
					t.Errorf("%s: %s on %s has %.2f : 1, want %.1f", scheme, p[0], p[1], r, least)
				}
			}
		}
		hold(text, 4.5)
		hold(seen, 3)
		t.Log(scheme, "drained", fmt.Sprintf("%.2f", contrast(t, colours["stop-ink"],
			colours["stop-ground"])), "leads", fmt.Sprintf("%.2f", contrast(t,
			colours["run-ink"], colours["run-ground"])))
		// The stripes of a banner mix in 14 % of the kind.
		if r := contrast(t, colours["stop-ink"], mixed(t, colours["stop-ground"],
			colours["stop"], 0.14)); r < 4.5 {
			t.Errorf("%s: a banner's text on its stripes has %.2f : 1", scheme, r)
		}
	}
}

// mixed is a colour with a share of another one in it.
func mixed(t *testing.T, x, y string, share float64) string {
	t.Helper()
	out := "#"
	for i := 1; i < 7; i += 2 {
		a, err1 := strconv.ParseUint(x[i:i+2], 16, 8)
		b, err2 := strconv.ParseUint(y[i:i+2], 16, 8)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		out += fmt.Sprintf("%02x", int(math.Round(float64(a)*(1-share)+float64(b)*share)))
	}
	return out
}
