//go:build linux && coordd_long

package e2e_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit"
)

// A real take-over as an operator sees it: a member is killed, its items are counted down, and then
// they travel, and the timeline says why.
func TestThePageShowsATakeOverWithItsCause(t *testing.T) {
	t.Parallel()
	_, page, consul := launchDev(t, "--members", "2", "--items", "30")
	lost := launch(t, nil, "run", "--id", "n10", "--hold-items", "--capacity", "40", "--service",
		"coordd", "--consul", consul, "--zone", "east")
	b := browse(t, page)
	b.waits("three members share 30 items", `document.querySelectorAll(".member").length === 3 &&
		[...document.querySelectorAll(".member .load b")].every(e => e.textContent === "10") &&
		document.querySelector("#wrong").innerText.includes("All 30 items run.")`)
	ids := b.text(`[...document.querySelectorAll("[data-member]")].map(e => e.textContent)`)
	if ids != "n1,n2,n10" {
		t.Errorf("the members are in the order %s", ids)
	}
	row := b.text(`document.querySelector(".member:last-child .head").innerText`)
	if !strings.Contains(row, "10 of 40") || !strings.Contains(row, "east") ||
		!strings.Contains(row, "lease 10 s") {
		t.Errorf("the row of n10 says %q", row)
	}
	b.accessible()

	// The search, and the drawer.
	item := b.text(`document.querySelector(".member:last-child .tile").dataset.item`)
	b.slash()
	b.waits("the search has the focus", `document.activeElement.id === "query"`)
	b.types(item)
	b.waits("the item is found", `document.querySelector("#hits [aria-selected=true]")?.innerText
		.startsWith(`+quoted(item)+`)`)
	b.types("\r")
	b.waits("the drawer says who has it, and what happened to it", `(t => t.includes("Owner") &&
		t.includes("n10") && t.includes("Grant") && /balancing the load|placed/i.test(t))(
		document.querySelector("#drawer").innerText)`)
	b.accessible()
	b.types("\x1b")
	b.waits("the drawer is closed, and the search has the focus again",
		`document.querySelector("#drawer").hidden && document.activeElement.id === "query"`)
	b.types("\x1b")

	b.text(`(window.flew = 0, new MutationObserver(all => {
		if (document.querySelector(".tile.arriving")) window.flew++;
	}).observe(document.querySelector("#members"), {subtree: true, attributes: true,
		childList: true}), "")`)
	lost.signal(syscall.SIGKILL)
	b.waits("what is waited for is at the top, with a countdown",
		`document.querySelector("#wrong .wait .left")?.textContent.includes("at the latest")`)
	b.tells("silent since ")
	first, begun := b.countdown(), time.Now()
	testkit.Await(t, workLimit, "it counts down", func() string {
		if left := b.countdown(); left >= first && first > 0 {
			return "still " + left.String()
		}
		return ""
	})
	t.Logf("counted down from %v within %v", first, time.Since(begun).Round(time.Millisecond))
	text := b.text(`document.querySelector("#wrong .wait:has(.left)").innerText`)
	if !strings.Contains(text, "10 items wait") || !strings.Contains(text, "n10 is gone") {
		t.Errorf("it says %q", text)
	}
	b.waits("its items are at the others", `document.querySelectorAll(".member").length === 2 &&
		document.querySelector("#wrong").innerText.includes("All 30 items run.")`)
	b.waits("the timeline says why",
		`/n10 lost: 5 items to n1 and 5 to n2/.test(document.querySelector("#timeline").innerText)`)
	if b.text("window.flew") == "0" {
		t.Error("no tile has travelled")
	}
	b.accessible()

	for _, order := range [][]string{{"freeze"}, {"drain", "n2", "--deadline", "10m"}} {
		stdout, stderr, code := once(t, append(order, "--service", "coordd", "--consul",
			consul)...)
		if code != 0 {
			t.Fatalf("%v: %d %s%s", order, code, stdout, stderr)
		}
	}
	b.waits("frozen and drained are at the top, by whom and since when", `(t =>
		/Frozen by .+@.+ at [0-9:]+: nothing/.test(t) &&
		/n2 is drained by .+@.+ at [0-9:]+: .* which are given up at once at [0-9:]+\./.test(t)
		)(document.querySelector("#wrong").innerText)`)
	b.waits("the timeline says by whom",
		`/Frozen: .*, by /.test(document.querySelector("#timeline").innerText)`)
}
