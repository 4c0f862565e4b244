package main

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"golang.org/x/sys/unix"
)

// openTerminal opens a terminal of its own. What is written to it is read from the first file.
func openTerminal(t *testing.T) (master, terminal *os.File) {
	t.Helper()
	t.Setenv("TERM", "xterm")
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	must(t, err)
	master = os.NewFile(uintptr(fd), "ptmx")
	t.Cleanup(func() { master.Close() })
	must(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	must(t, err)
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	t.Cleanup(func() { terminal.Close() })
	return master, terminal
}

// Ctrl-S stops a terminal.
func TestASignalEndsACommandThatDrawsOnAStoppedTerminal(t *testing.T) {
	_, terminal := openTerminal(t)
	control, err := unix.Open(terminal.Name(), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(control)
	must(t, unix.IoctlSetInt(control, unix.TCXONC, unix.TCOOFF))
	consul := devconsul.New(devconsul.Config{})
	defer consul.Close()
	server := httptest.NewServer(consul)
	defer server.Close()
	var items strings.Builder
	for i := range 5_000 {
		fmt.Fprintf(&items, "w%d\n", i)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	endsByASignal(t, ctx, surroundings{args: []string{"work", "import", "-", "--consul",
		server.URL}, env: os.LookupEnv, in: strings.NewReader(items.String()), out: io.Discard,
		err: terminal})
	must(t, unix.IoctlSetInt(control, unix.TCXONC, unix.TCOON))
}

func TestOnATerminalAnImportSaysHowFarItIs(t *testing.T) {
	master, terminal := openTerminal(t)
	errs := &outlet{ctx: t.Context(), to: terminal}
	a := &app{surroundings: surroundings{err: errs}}
	show, finish := a.progress(10_000, "items")
	if show == nil {
		t.Fatal("it is taken for no terminal")
	}
	show(5_000)
	finish()
	want := "\r5000 of 10000 items (50%)\r\x1b[K"
	got := make([]byte, len(want))
	if _, err := io.ReadFull(master, got); err != nil || string(got) != want {
		t.Errorf("%q, %v", got, err)
	}
}
