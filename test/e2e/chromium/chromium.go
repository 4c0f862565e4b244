// Package chromium starts a headless browser for tests of the page.
package chromium

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
)

// Path returns the path of the browser. Without one a test fails: it does not skip.
func Path(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("COORDD_TEST_CHROMIUM"); path != "" {
		return path
	}
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("no chromium (%v): run test/tools.sh, or install it (Debian, Ubuntu: apt-get "+
			"install --no-install-recommends chromium), or set COORDD_TEST_CHROMIUM to its path",
			err)
	}
	return path
}

// Start starts a browser with one empty page. It ends by stop, or with the test.
func Start(t testing.TB) (ctx context.Context, stop func()) {
	t.Helper()
	// Tests run as root in containers, where Chromium has no sandbox; it opens only our own page.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox,
		chromedp.ExecPath(Path(t)))
	allocator, release := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	stop = sync.OnceFunc(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Error("the browser did not end:", err)
		}
		cancel()
		release()
	})
	t.Cleanup(stop)
	return ctx, stop
}
