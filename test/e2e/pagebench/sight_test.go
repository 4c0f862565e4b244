//go:build coordd_long

package pagebench_test

import (
	"net/http/httptest"
	"os"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/test/e2e/chromium"
)

// A pixel near the edge of the first item's square of a member.
const pixel = `(m => [...document.querySelector(".member[aria-label=" + m + "] canvas")
	?.getContext("2d").getImageData(1, 1, 1, 1).data || []].join(" "))`

// Rows out of sight are not drawn. They must not stay so.
func TestARowIsDrawnWhenItComesInSight(t *testing.T) {
	s := newService(today(t), 100, 10_000)
	server := httptest.NewServer(s)
	defer server.Close()
	defer server.CloseClientConnections()
	ctx, stop := chromium.Start(t)
	defer stop()
	must(t, chromedp.Do(ctx, chromedp.EmulateViewport(1400, 1000), chromedp.Navigate(server.URL)))
	await(t, ctx, pixel+`("n1") === "47 111 183 255"`) // --run
	await(t, ctx, pixel+`("n99") === "0 0 0 0"`)
	evaluate := func(expression string) {
		t.Helper()
		_, err := chromedp.Run(ctx, chromedp.Evaluate[chromedp.Void](expression))
		must(t, err)
	}
	s.step(func() { s.state[s.owned(98)[0]] = operator.ItemWaiting })
	evaluate(`document.querySelector(".member[aria-label=n99]").scrollIntoView()`)
	await(t, ctx, pixel+`("n99") === "47 111 183 255"`)
	await(t, ctx, pixel+`("n98") === "123 75 176 255"`) // --wait
	s.step(func() { s.state[s.owned(1)[0]] = operator.ItemWaiting })
	await(t, ctx, `document.querySelector("#legend").innerText.includes("2 waiting")`)
	evaluate(`scrollTo(0, 0)`)
	await(t, ctx, pixel+`("n1") === "123 75 176 255"`)
	s.step(func() { // its first item goes to another member, out of sight and back
		s.owner[s.owned(1)[0]] = 99
	})
	await(t, ctx, pixel+`("n1") === "47 111 183 255"`)
	if path := os.Getenv("PIC"); path != "" {
		b, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
		must(t, err)
		must(t, os.WriteFile(path, b, 0o600))
	}
}
