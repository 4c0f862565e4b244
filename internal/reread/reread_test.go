package reread_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/internal/reread"
	"github.com/coordd/coordd/internal/testkit"
)

// upper is the value of files: their text, unless it is bad.
func upper(texts [][]byte) (string, error) {
	all := ""
	for _, t := range texts {
		all += string(t)
	}
	if strings.Contains(all, "bad") {
		return "", errors.New("bad text")
	}
	return strings.ToUpper(all), nil
}

func TestAValueFollowsItsFilesAndABadOneIsNamedOnce(t *testing.T) {
	dir := t.TempDir()
	file, ca := filepath.Join(dir, "file"), filepath.Join(dir, "ca")
	write := func(path, text string) { testkit.Must(t, os.WriteFile(path, []byte(text), 0o600)) }
	testkit.Must(t, os.Mkdir(ca, 0o700))
	write(file, "a")
	write(filepath.Join(ca, "x"), "x")
	testkit.Must(t, os.Symlink(".", filepath.Join(ca, "..data"))) // as Kubernetes makes them
	synctest.Test(t, func(t *testing.T) {
		var said testkit.Output
		log := slog.New(slog.NewTextHandler(&said, nil))
		f, err := reread.Open("it", upper, file, "", ca)
		testkit.Must(t, err)
		for _, step := range []struct {
			do         func()
			want, says string // it says that once; empty: nothing
		}{
			{func() {}, "AX\n", ""},
			{func() { write(file, "b") }, "BX\n", "file-renewed"},
			{func() { write(file, "bad") }, "BX\n", "bad text"},
			{func() { testkit.Must(t, os.Remove(file)) }, "BX\n", "no such file"},
			{func() { write(file, "c") }, "CX\n", "file-renewed"},
			{func() { write(filepath.Join(ca, "y"), "y") }, "CX\nY\n", "file-renewed"},
			{func() { testkit.Must(t, os.RemoveAll(ca)) }, "CX\nY\n", "no such file"},
		} {
			step.do()
			for range 5 {
				time.Sleep(reread.Every)
				f.Get(log)
			}
			text := said.Take()
			if got := f.Get(log); got != step.want || !strings.Contains(text, step.says) ||
				strings.Count(text, "\n") > 1 || (text == "") != (step.says == "") {
				t.Errorf("got %q, want %q and %q said once: it said %s", got, step.want, step.says,
					text)
			}
		}
		// Between two looks the disk is left alone, unless somebody asks.
		f.Get(log)
		testkit.Must(t, os.Mkdir(ca, 0o700))
		write(file, "d")
		if got := f.Get(log); got != "CX\nY\n" {
			t.Errorf("it looked again at once: %q", got)
		}
		if reread.Again(); f.Get(log) != "D" || !reread.Some() {
			t.Error("it was asked for a look and did not look")
		}
		write(file, "e")
		if f.Look(log) != "E" {
			t.Error("Look did not look")
		}
	})
}

func TestWhatCameThroughAPipeIsReadOnce(t *testing.T) {
	r, w, err := os.Pipe()
	testkit.Must(t, err)
	defer r.Close()
	_, err = w.WriteString("a")
	testkit.Must(t, errors.Join(err, w.Close()))
	log := slog.New(slog.DiscardHandler)
	f, err := reread.Open("it", upper, "/dev/fd/"+strconv.Itoa(int(r.Fd())))
	testkit.Must(t, err)
	if got := f.Look(log); got != "A" {
		t.Errorf("the pipe was read again: %q", got)
	}
}

func TestATokenIsOneLine(t *testing.T) {
	for text, want := range map[string]string{"t": "t", " t\r\n": "t", "\ufefft\n": "t", "": "",
		"\n": "", "a b": "", "a\nb": "", "a\x00": "", "é": "", strings.Repeat("x", 5000): ""} {
		got, err := reread.Token([][]byte{[]byte(text)})
		if got != want || (err == nil) != (want != "") ||
			err != nil && text != "" && strings.Contains(err.Error(), text) && len(text) > 1 {
			t.Errorf("%.20q: %q, %v", text, got, err)
		}
	}
}
