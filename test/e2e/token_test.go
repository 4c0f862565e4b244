//go:build linux && coordd_long

package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/testkit"
)

// What the page loads in a browser, and its stream of events, have the token as the page itself
// has.
func TestThePageBehindATokenWorksInABrowser(t *testing.T) {
	t.Parallel()
	_, _, consul := launchDev(t, "--members", "1", "--items", "0")
	file := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(file, []byte("s3cret-token\n"), 0o600))
	n2 := launch(t, nil, "run", "--id", "n2", "--hold-items", "--service", "coordd", "--consul",
		consul, "--http", "127.0.0.1:0", "--http-token-file", file)
	testkit.Await(t, startLimit, "it says where the page is", func() string {
		if !listening.MatchString(n2.stderr()) {
			return "so far: " + n2.stderr()
		}
		return ""
	})
	at := listening.FindStringSubmatch(n2.stderr())[1]
	b := browse(t, "http://anybody:s3cret-token@"+at+"/")
	b.waits("two members are shown", `document.querySelectorAll(".member").length === 2`)
	if _, stderr, code := once(t, "work", "add", "device_1", "--consul", consul); code != 0 {
		t.Fatal(stderr)
	}
	b.waits("the timeline says that it was placed",
		`document.querySelector("#timeline").innerText.includes("device_1")`)
	if strings.Contains(n2.stderr(), "s3cret") {
		t.Error("the log has the token")
	}
}
