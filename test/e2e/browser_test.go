//go:build linux && coordd_long

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/e2e/chromium"
)

// browser is a headless Chromium with one page. What goes wrong in the page fails the test.
type browser struct {
	*testing.T
	ctx context.Context

	mu       sync.Mutex
	troubles []string
	refused  bool // what cannot be loaded is no trouble: the test brings it about
}

// browse opens a page.
func browse(t *testing.T, url string) *browser {
	t.Helper()
	ctx, _ := chromium.Start(t)
	b := &browser{T: t, ctx: ctx}
	b.must(chromedp.Listen(ctx, b.hear))
	_, err := chromedp.Call(ctx, log.Enable, cdp.Empty{})
	b.must(err)
	b.must(chromedp.Do(ctx, chromedp.EmulateViewport(1400, 1000), chromedp.Navigate(url)))
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, trouble := range b.troubles {
			t.Error("in the page:", trouble)
		}
	})
	return b
}

// hear takes down what goes wrong in the page: exceptions, and what its policy forbids.
func (b *browser) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
		b.troubles = append(b.troubles, text)
	case *log.EventEntryAdded:
		unloaded := strings.HasPrefix(e.Entry.Text, "Failed to load resource")
		if e.Entry.Level == log.EntryLevelError && !(b.refused && unloaded) {
			b.troubles = append(b.troubles, e.Entry.Text)
		}
	}
}

func (b *browser) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// expectRefusals says that from here on the page may fail to load what it asks for.
func (b *browser) expectRefusals() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused = true
}

// text is what an expression gives, as text.
func (b *browser) text(expression string) string {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, workLimit)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("String("+expression+")"))
	if err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
	return text
}

// waits until an expression is true; what names it.
func (b *browser) waits(what, expression string) {
	b.Helper()
	testkit.Await(b, workLimit, what, func() string {
		if b.text("!!("+expression+")") == "true" {
			return ""
		}
		return "the page says: " + b.text("document.body.innerText")
	})
}

// types keys, as a person does.
func (b *browser) types(keys string) {
	b.Helper()
	b.must(chromedp.Do(b.ctx, chromedp.KeyEvent(keys)))
}

// slash presses that key as a keyboard does: what it types is left out when the page has taken the
// key for itself. KeyEvent sends it in an event of its own.
func (b *browser) slash() {
	b.Helper()
	for _, kind := range []input.DispatchKeyEventType{kb.KeyDown, kb.KeyUp} {
		key := input.DispatchKeyEventParams{Type: kind, Key: "/", Code: "Slash"}
		if kind == kb.KeyDown {
			key.Text = "/"
		}
		_, err := chromedp.Call(b.ctx, input.DispatchKeyEvent, key)
		b.must(err)
	}
}

// accessible fails for what a person with a screen reader cannot tell: what may be operated, and
// has no name.
func (b *browser) accessible() {
	b.Helper()
	tree, err := chromedp.Call(b.ctx, accessibility.GetFullAXTree,
		accessibility.GetFullAXTreeParams{})
	b.must(err)
	named := map[string]int{}
	for _, n := range tree.Nodes {
		if n.Ignored {
			continue
		}
		switch role := axText(n.Role); role {
		case "button", "combobox", "dialog", "link", "listbox", "option", "application",
			"searchbox", "heading", "status":
			if axText(n.Name) == "" && role != "status" {
				b.Errorf("a %s has no name", role)
			}
			named[role]++
		}
	}
	for _, role := range []string{"button", "combobox", "link", "heading"} {
		if named[role] == 0 {
			b.Errorf("no %s is told to a screen reader: %v", role, named)
		}
	}
}

// buttons are the names of all buttons as a screen reader tells them.
func (b *browser) buttons() (names []string) {
	b.Helper()
	tree, err := chromedp.Call(b.ctx, accessibility.GetFullAXTree,
		accessibility.GetFullAXTreeParams{})
	b.must(err)
	for _, n := range tree.Nodes {
		if !n.Ignored && axText(n.Role) == "button" {
			names = append(names, axText(n.Name))
		}
	}
	return names
}

// press presses a button by its name, with the keyboard.
func (b *browser) press(name string) {
	b.Helper()
	button := `document.querySelector("button[aria-label=" + CSS.escape(` +
		quoted(name) + `) + "]")`
	b.waits("there is a button "+name, button)
	b.text(button + `.focus()`)
	b.types("\r")
}

func axText(v *accessibility.Value) string {
	if v == nil {
		return ""
	}
	var text string
	if json.Unmarshal([]byte(v.Value), &text) != nil {
		return ""
	}
	return strings.TrimSpace(text)
}

// until is a moment at which something is over that the page counts down.
func (b *browser) countdown() time.Duration {
	b.Helper()
	left, err := time.ParseDuration(strings.ReplaceAll(b.text(
		`(document.querySelector("#wrong .left")?.firstChild?.textContent || "")`), " ", ""))
	if err != nil {
		return 0
	}
	return left
}

// quoted is text as an expression.
func quoted(text string) string { return fmt.Sprintf("%q", text) }
