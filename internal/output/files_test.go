//go:build unix

package output

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/testkit"
	"pgregory.net/rapid"
)

func inFiles(t *testing.T) (*fixture, string) {
	t.Helper()
	dir, err := CheckDir(filepath.Join(t.TempDir(), "logs"))
	if err != nil {
		t.Fatal(err)
	}
	return start(t, Config{To: File, Dir: dir}, nil, nil), dir
}

func TestEachItemHasItsFile(t *testing.T) {
	f, dir := inFiles(t)
	f.run("w1", "one\n", "")
	f.copied()
	f.run("w1", "", "two, without an end")
	f.run("../w 2", "three\n", "")
	f.copied()
	if got := contents(t, dir, "w1.log"); got != "one\ntwo, without an end\n" {
		t.Errorf("w1.log: %q", got)
	}
	if got := contents(t, dir, "%2E.%2Fw%202.log"); got != "three\n" {
		t.Errorf("the file of ../w 2: %q", got)
	}
	info, err := os.Stat(filepath.Join(dir, "w1.log"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestAFileHasTheBytesAsTheyWereWritten(t *testing.T) {
	f, dir := inFiles(t)
	binary := make([]byte, 1<<20)
	_, _ = rand.Read(binary)
	long := strings.Repeat("x", 3*MaxLine+7)
	text := long + "\n" + string(binary) + "\n" + strings.Repeat("short\n", 50_000)
	r := f.begin("w1")
	written := make(chan struct{})
	go func() { defer close(written); r.say(t, 1, text) }()
	<-written
	r.Ended()
	f.copied()
	if got := contents(t, dir, "w1.log"); got != text {
		t.Errorf("%d bytes arrived that are not the %d written", len(got), len(text))
	}
}

func TestAFileIsFollowedWhenItIsRotated(t *testing.T) {
	f, dir := inFiles(t)
	r := f.begin("w1")
	path := filepath.Join(dir, "w1.log")
	has := func(want string) {
		t.Helper()
		testkit.Eventually(t, want, func() bool {
			b, _ := os.ReadFile(path)
			return string(b) == want
		})
	}
	r.say(t, 1, "one\n")
	has("one\n")
	if err := os.Truncate(path, 0); err != nil { // logrotate's copytruncate
		t.Fatal(err)
	}
	r.say(t, 1, "two\n")
	has("two\n")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	r.say(t, 1, "three\n")
	has("three\n")
	r.Ended()
}

func TestAFileThatSomebodyElsePutThereIsRefused(t *testing.T) {
	f, dir := inFiles(t)
	target := filepath.Join(t.TempDir(), "target")
	link := filepath.Join(dir, "w1.log")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	r := f.begin("w1")
	r.say(t, 1, "lost\nlost\n")
	testkit.Eventually(t, "a report", func() bool { return len(f.losses()) > 0 })
	if l := f.losses()[0]; l.Item != "w1" || !strings.Contains(l.Err, "symbolic link: remove it") {
		t.Errorf("got %+v", l)
	}
	if _, err := os.Stat(target); err == nil {
		t.Error("the link was followed")
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	r.say(t, 1, "kept\n")
	r.Ended()
	f.copied()
	got := contents(t, link)
	if !strings.HasPrefix(got, "kept\ncoordd: 2 lines lost: ") || strings.Count(got, "\n") != 2 {
		t.Errorf("got %q", got)
	}
}

func TestItemsDoNotShareAFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.OneOf(rapid.StringN(1, 256, 256), rapid.StringMatching(`[a%.~]{1,5}`),
			rapid.StringMatching(`x{250,256}`))
		a, b := id.Draw(t, "a"), id.Draw(t, "b")
		name := fileName(a)
		if a != b && name == fileName(b) {
			t.Fatalf("%q and %q", a, b)
		}
		if len(name) > maxName || name[0] == '.' || strings.ContainsAny(name, "/\x00\n") {
			t.Fatalf("%q", name)
		}
	})
}

func TestADirectoryOfOthersIsRefused(t *testing.T) {
	at := func(name string) string { return filepath.Join(t.TempDir(), name) }
	open := at("open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	plain := at("plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		open:         "chmod go-w",
		plain:        "no directory",
		at("a/b"):    "make its parent",
		"/proc/self": "", // any error: it cannot be written to
	} {
		if _, err := CheckDir(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", dir, err, want)
		}
	}
	fine := at("fine")
	link := at("link")
	if err := os.Symlink(fine, link); err != nil {
		t.Fatal(err)
	}
	if _, err := CheckDir(fine); err != nil {
		t.Error(err)
	}
	if got, err := CheckDir(link); err != nil || filepath.Base(got) != "fine" {
		t.Errorf("by way of a link: %q, %v", got, err)
	}
}

// He would choose which files are written to.
func TestADirectoryBehindAStrangersLinkIsRefused(t *testing.T) {
	target := t.TempDir()
	if err := os.Chmod(target, 0o755); err != nil {
		t.Fatal(err)
	}
	link := testkit.StrangersLink(t, target)
	for _, dir := range []string{link, filepath.Join(link, "new")} {
		if got, err := CheckDir(dir); err == nil || !strings.Contains(err.Error(),
			link+" is a link of user 65534") {
			t.Errorf("%s: %q, %v", dir, got, err)
		}
	}
	if left, err := os.ReadDir(target); err != nil || len(left) > 0 {
		t.Errorf("behind it are %v, %v", left, err)
	}
}

// What cleans /tmp takes a directory away whose files are old.
func TestAFileIsWrittenBehindNoLinkThatComesInItsDirectorysPlace(t *testing.T) {
	shared, victim := testkit.SharedDir(t), t.TempDir()
	dir, err := CheckDir(filepath.Join(shared, "logs"))
	must(t, err)
	f := start(t, Config{To: File, Dir: dir}, nil, nil)
	f.run("w1", "one\n", "")
	f.copied()
	must(t, os.Rename(dir, dir+".1"))
	f.run("w1", "two\n", "")
	f.copied()
	if got := contents(t, dir, "w1.log"); got != "two\n" {
		t.Errorf("made anew it has %q", got)
	}
	must(t, os.RemoveAll(dir))
	must(t, os.Symlink(victim, dir))
	testkit.GiveAway(t, dir)
	f.run("w1", "three\n", "")
	f.copied()
	if left, err := os.ReadDir(victim); err != nil || len(left) > 0 {
		t.Errorf("behind a stranger's link are %v, %v", left, err)
	}
	if l := f.losses(); len(l) == 0 || !strings.Contains(l[0].Err, "is a link of user 65534") {
		t.Errorf("the losses are %v", l)
	}
	must(t, os.Remove(dir))
	f.run("w1", "four\n", "")
	f.copied()
	if got := contents(t, dir, "w1.log"); got != "four\n" {
		t.Errorf("when the link has gone it has %q", got)
	}
}
