//go:build linux && coordd_long

package e2e_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/realconsul"
)

// failsAt is work that ends at once where there is a file named ITEM@MEMBER.
const failsAt = `test -e "$E2E_DIR/$COORDD_ITEM@$COORDD_MEMBER" && exit 3
trap 'exit' TERM
while :; do read -r never; done <>"$E2E_HOLD"
`

// opens opens the drawer of an item or a member, and waits until it says each of the texts.
func (b *browser) opens(kind, id string, texts ...string) {
	b.Helper()
	b.waits("there is "+id, `document.querySelector("[data-`+kind+`=`+id+`]")`)
	b.text(`document.querySelector("[data-` + kind + `=` + id + `]").click()`)
	for _, text := range texts {
		b.waits("the drawer of "+id+" says "+text,
			`document.querySelector("#drawer").innerText.includes(`+quoted(text)+`)`)
	}
}

// tells waits until the page says a text.
func (b *browser) tells(text string) {
	b.Helper()
	b.waits("the page says "+text, `document.body.innerText.includes(`+quoted(text)+`)`)
}

// Each state that the page can be in, one after the other, for everybody: by the rules of WCAG, and
// in words.
func TestThePageIsAccessibleInEachOfItsStates(t *testing.T) {
	t.Parallel()
	consul := realconsul.Start(t, realconsul.Options{})
	s := newService(t, consul.Addr())
	dir := workDir(t)
	binary := filepath.Join(dir, "binary")
	must(t, os.WriteFile(binary, []byte("\x00\xff\n"), 0o600))
	s.exec, s.env = failsAt, []string{"E2E_DIR=" + dir}
	for _, name := range []string{"loop@n1", "poor@n2", "bad@n2"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// At n1 what fails is tried for ever. What n3 has waits for as long as the test needs.
	waiting := []string{"--grace", "1h", "--leader-soak", "1s",
		"--restart-wait", "1h"}
	s.start("n1", append(waiting, "--http", "127.0.0.1:0")...)
	testkit.Await(t, startLimit, "one member", func() string { return s.now().unlike(1, 0) })
	page := "http://" + s.now().Members[0].Address + "/"
	b := browse(t, page)
	b.tells("There is no work yet")
	b.obeys("an empty workload")

	s.start("n2", append(waiting, "--max-restarts", "1")...)
	s.start("n3", waiting...)
	testkit.Await(t, startLimit, "three members", func() string { return s.now().unlike(3, 0) })
	s.do("work", "add", "w1", "w2", "w3", "w4", "w5", "w6")
	b.tells("All 6 items run.")
	b.waits("the actors are folded", `!document.querySelector("#actors").open`)
	b.text(`document.querySelector("#actors").open = true`)
	b.waits("the actors are shown", `document.querySelectorAll("#tree li").length > 5`)
	b.text(`document.querySelector("#plan").open = true`)
	b.waits("the plan is shown", `document.querySelector("#planned")?.textContent.startsWith(
		"Nothing has to move.The loads of two members differ by 0 at most, and by 0 afterwards.")`)
	b.obeys("a settled cluster, with its plan and its actors")

	b.slash()
	b.types("w1")
	b.waits("one item is found", `document.querySelectorAll("#hits [role=option]").length === 1`)
	b.obeys("the search with results")
	b.types("\x1b")

	s.do("pin", "loop", "n1")
	s.do("pin", "bad", "n2")
	s.do("pin", "poor", "n2", "--prefer")
	s.do("work", "add", "loop", "bad", "poor", "--payload", `<b>{"url": "rtsp://cam"}</b>`+
		"\nevery: 5m\n")
	b.waits("the headline is as bad as the worst", `!document.querySelector("#wrong .fine") &&
		document.querySelector("#wrong .headline.bad")`)
	b.tells("crash-looping")
	b.waits("one is quarantined, in words and as a tile",
		`document.querySelector(".tile.loop[data-item=bad]")?.title === "bad quarantined"`)
	b.tells("1 item failed here")
	b.obeys("a crash-looping and a quarantined item")
	b.opens("item", "bad", "Quarantined", "Failed at", "n2: its work ended too often there")
	b.opens("item", "poor", "Preferred at", "n2, while it takes items and has room", "Failed at",
		"39 bytes", `<b>{"url": "rtsp://cam"}</b>`, "DIR/poor.log", "coordd pin poor n")
	b.obeys("the drawer of an item")
	for _, command := range []string{"explain poor", "restart poor"} {
		b.press("Copy coordd " + command + " --service " + s.name)
		b.waits(command+" is copied", `document.querySelector("#drawer [data-copy*='`+command+
			`']").textContent === "Copied"`)
	}
	s.do("work", "add", "w1", "--payload-file", binary, "--weight", "9")
	b.opens("item", "w1", "3 bytes, in hexadecimal digits", "00 ff 0a", "Weight")
	b.tells("load")
	b.opens("member", "n2", "Failed here",
		"1 item, since it was registered: it was moved elsewhere")
	b.types("\x1b")

	s.members["n3"].signal(syscall.SIGKILL)
	b.waits("its items wait", `document.querySelector("#wrong .wait .left")`)
	b.obeys("a take-over")
	b.opens("member", "n3", "gone: its items wait for it", "Gone since")
	b.obeys("the drawer of a member")
	b.types("\x1b")

	s.do("drain", "n2")
	s.do("freeze")
	b.tells("nothing is moved, placed or taken over")
	b.tells("n2 is drained")
	b.obeys("a drained and frozen cluster")

	b.expectRefusals()
	must(t, consul.Servers[0].Freeze())
	b.tells("Consul does not answer. The last answer was at ")
	must(t, consul.Servers[0].Thaw())
	b.waits("it is answered again", `!document.querySelector(".old")`)
	if consul.Servers[0].Stop() != nil {
		return
	}
	b.tells("what is shown is of then")
	b.waits("it says that Consul is away", `document.querySelector("#wrong .lost")`)
	b.obeys("without Consul")
	b.must(chromedp.Do(b.ctx, chromedp.Navigate(page)))
	b.tells("Nothing was read since this page was opened at ")
	b.obeys("opened without Consul")
}

// Above 1200 items they are squares on canvases.
func TestThePageOfManyItemsIsAccessible(t *testing.T) {
	t.Parallel()
	_, page, _ := launchDev(t, "--members", "2", "--items", "1500")
	b := browse(t, page)
	b.shares("two members share 1500 items", 750, 750)
	b.waits("they are on canvases", `document.querySelectorAll("canvas.grid").length === 2`)
	b.obeys("many items")
	b.slash()
	b.types("group_14")
	b.opens("member", "n2", "Its items with “group_14”", "device_group_14")
	b.obeys("the list of a member's items")
}
