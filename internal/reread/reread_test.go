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
		all += strings.ReplaceAll(string(t), "\n", "")
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
	write(file, "a")
	write(ca, "x")
	synctest.Test(t, func(t *testing.T) {
		var said testkit.Output
		defer slog.SetDefault(slog.Default())
		slog.SetDefault(slog.New(slog.NewTextHandler(&said, nil)))
		f, err := reread.Open("it", upper, file, ca)
		testkit.Must(t, err)
		for _, step := range []struct {
			do         func()
			want, says string // it says that once; empty: nothing
		}{
			{func() {}, "AX", ""},
			{func() { write(file, "b") }, "BX", "file-renewed"},
			{func() { write(file, "bad") }, "BX", "bad text"},
			{func() { testkit.Must(t, os.Remove(file)) }, "BX", "no such file"},
			{func() { write(file, "c") }, "CX", "file-renewed"},
			{func() { write(ca, "xy") }, "CXY", "file-renewed"},
			{func() { testkit.Must(t, os.Remove(ca)) }, "CXY", "no such file"},
		} {
			step.do()
			for range 5 {
				time.Sleep(reread.Every)
				f.Get()
			}
			text := said.Take()
			if got := f.Get(); got != step.want || !strings.Contains(text, step.says) ||
				strings.Count(text, "\n") > 1 || (text == "") != (step.says == "") {
				t.Errorf("got %q, want %q and %q said once: it said %s", got, step.want, step.says,
					text)
			}
		}
		// Between two looks the disk is left alone.
		write(ca, "z")
		if got := f.Get(); got != "CXY" {
			t.Errorf("it looked again at once: %q", got)
		}
		if !reread.Some() {
			t.Error("there are files")
		}
	})
}

func TestWhatCameThroughAPipeIsReadOnce(t *testing.T) {
	r, w, err := os.Pipe()
	testkit.Must(t, err)
	defer r.Close()
	_, err = w.WriteString("a")
	testkit.Must(t, errors.Join(err, w.Close()))
	synctest.Test(t, func(t *testing.T) {
		f, err := reread.Open("it", upper, "/dev/fd/"+strconv.Itoa(int(r.Fd())))
		testkit.Must(t, err)
		time.Sleep(reread.Every)
		if got := f.Get(); got != "A" {
			t.Errorf("the pipe was read again: %q", got)
		}
	})
}

func TestATokenIsOneLine(t *testing.T) {
	for text, want := range map[string]string{"t": "t", " t\r\n": "t", "\ufefft\n": "t", "": "",
		"\n": "", "a b": "", "a\nb": "", "a\x00": "", "é": "", strings.Repeat("x", 5000): ""} {
		got, path := "", filepath.Join(t.TempDir(), "token")
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
		f, err := reread.Token("it", path)
		if err == nil {
			got = f.Get()
		}
		if got != want || (err == nil) != (want != "") ||
			err != nil && text != "" && strings.Contains(err.Error(), text) && len(text) > 1 {
			t.Errorf("%.20q: %q, %v", text, got, err)
		}
	}
}
