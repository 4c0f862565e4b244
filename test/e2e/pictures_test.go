//go:build linux && coordd_long

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/realconsul"
)

// picture takes one of the page as it is, in light or dark. It is written into the directory that
// COORDD_PICTURES names: make pictures writes those of the documentation.
func (b *browser) picture(name, scheme string) {
	b.Helper()
	b.must(chromedp.Do(b.ctx, chromedp.EmulateViewport(1360, 800)))
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	b.must(err)
	// Two frames later it looks like that.
	_, err = chromedp.Run(b.ctx, chromedp.Evaluate[chromedp.Void](`new Promise(done =>
		requestAnimationFrame(() => requestAnimationFrame(() => done())))`,
		chromedp.EvalAwaitPromise))
	b.must(err)
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	b.must(err)
	dir := os.Getenv("COORDD_PICTURES")
	if dir == "" {
		return
	}
	b.must(os.WriteFile(filepath.Join(dir, name), png, 0o644))
}

// The pictures of the documentation: a machine is lost while an item loops, and its items run
// elsewhere then.
func TestThePicturesOfThePage(t *testing.T) {
	t.Parallel()
	s := newService(t, realconsul.Start(t, realconsul.Options{}).Addr())
	s.name = "devices"
	dir := workDir(t)
	s.exec, s.env = failsAt, []string{"E2E_DIR=" + dir}
	loops := filepath.Join(dir, "device_group_0007@n10")
	must(t, os.WriteFile(loops, nil, 0o600))
	s.start("n1", "--http", "127.0.0.1:0")
	testkit.Await(t, startLimit, "one member", func() string { return s.now().unlike(1, 0) })
	page := "http://" + s.now().Members[0].Address + "/"
	s.start("n2")
	s.start("n3")
	s.start("n10", "--capacity", "40", "--zone", "east")
	s.exec = ""
	lost := s.start("n4")
	testkit.Await(t, startLimit, "five members", func() string { return s.now().unlike(5, 0) })
	b := browse(t, page) // it ends before the members do
	add := []string{"work", "add"}
	for i := range 100 {
		add = append(add, fmt.Sprintf("device_group_%04d", i+1))
	}
	s.do(add...)
	s.do("pin", "device_group_0007", "n10")
	b.shares("five members share 100 items", 20, 20, 20, 20, 20)
	b.tells("1 item loops: device_group_0007")
	b.waits("nothing stands out for having moved", `!document.querySelector(".tile.new")`)
	b.picture("page-before.png", "light")
	lost.signal(syscall.SIGKILL)
	b.waits("its items wait", `document.querySelector("#wrong .wait .left")`)
	b.tells("silent since")
	b.tells("n4 was lost with 20 items")
	b.picture("page.png", "light")
	b.picture("page-dark.png", "dark")
	b.shares("its items run elsewhere", 25, 25, 25, 25)
	b.waits("the timeline says why",
		`/n4 lost: /.test(document.querySelector("#timeline").innerText)`)
	b.waits("all tiles have landed, and run", `!document.querySelector(".tile.arriving, .tile.start")`)
	b.picture("page-after.png", "light")
}
