//go:build linux && coordd_long

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/coordd/coordd/test/e2e/axe"
)

// runAxe runs the rules of levels A and AA of WCAG 2.0, 2.1 and 2.2 and the best practices. It
// gives the names of the rules that had something to judge, and a line for each violation.
// axe-core leaves target-size out unless it is asked for.
const runAxe = `axe.run({preload: false, rules: {"target-size": {enabled: true}},
	runOnly: {type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a",
		"wcag22aa", "best-practice"]}}).then(r => JSON.stringify({
	Judged: [...r.passes, ...r.violations].map(v => v.id),
	Violations: r.violations.flatMap(v => v.nodes.map(n => v.id + ": " +
		n.target.flat().join(" ") + ": " + n.failureSummary.replace(/\s*\n\s*/g, " ") + ": " +
		v.help + " (" + v.helpUrl + "): " + n.html.slice(0, 160)))}))`

// obeys holds the page to the rules of axe-core, in light and dark, on a desk and on a phone. The
// script comes in by the DevTools protocol, which the page's policy does not bind.
func (b *browser) obeys(state string) {
	b.Helper()
	if b.text("typeof axe") == "undefined" {
		ctx, cancel := context.WithTimeout(b.ctx, workLimit)
		defer cancel()
		_, err := chromedp.Run(ctx, chromedp.Evaluate[chromedp.Void](axe.Source(b.T)))
		b.must(err)
	}
	found := map[string][]string{} // by violation: how the page looked
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{deskWidth, phoneWidth} {
			b.looks(width, &emulation.MediaFeature{Name: "prefers-color-scheme", Value: scheme},
				// What fades in has too little contrast for a moment.
				&emulation.MediaFeature{Name: "prefers-reduced-motion", Value: "reduce"})
			for _, violation := range b.violations() {
				look := fmt.Sprintf("%s at %d px", scheme, width)
				found[violation] = append(found[violation], look)
			}
		}
	}
	b.looks(deskWidth)
	b.toldApart(state)
	for _, violation := range slices.Sorted(maps.Keys(found)) {
		b.Errorf("%s (%s): %s", state, strings.Join(found[violation], ", "), violation)
	}
}

// toldApart fails for buttons and links of one name that do different things: axe-core has no such
// rule, and a list of them is how many people go through a page.
func (b *browser) toldApart(state string) {
	b.Helper()
	tree, err := chromedp.Call(b.ctx, accessibility.GetFullAXTree,
		accessibility.GetFullAXTreeParams{})
	b.must(err)
	seen := map[string]bool{}
	for _, n := range tree.Nodes {
		role := axText(n.Role)
		if n.Ignored || role != "button" && role != "link" {
			continue
		}
		name := role + " " + axText(n.Name)
		if seen[name] {
			b.Errorf("%s: there are two of %q", state, name)
		}
		seen[name] = true
	}
}

const deskWidth, phoneWidth = 1400, 360

func (b *browser) looks(width int64, features ...*emulation.MediaFeature) {
	b.Helper()
	b.must(chromedp.Do(b.ctx, chromedp.EmulateViewport(width, 1000)))
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia,
		emulation.SetEmulatedMediaParams{Features: features})
	b.must(err)
}

func (b *browser) violations() []string {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, workLimit)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](runAxe, chromedp.EvalAwaitPromise))
	b.must(err)
	var found struct{ Judged, Violations []string }
	b.must(json.Unmarshal([]byte(text), &found))
	for _, rule := range []string{"color-contrast", "target-size", "region", "heading-order"} {
		if !slices.Contains(found.Judged, rule) {
			b.Errorf("axe-core had nothing to judge by %s, only by %v", rule, found.Judged)
		}
	}
	return found.Violations
}
