//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit"
)

func TestAnExportGoesIntoAPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	must(t, syscall.Mkfifo(pipe, 0o600))
	text := bytes.Repeat([]byte("x"), 1<<20)
	got := make(chan []byte)
	go func() {
		var all []byte
		if f, err := os.Open(pipe); err == nil {
			all, _ = io.ReadAll(f)
		}
		got <- all
	}()
	if err := writeWhole(t.Context(), pipe, text); err != nil {
		t.Error(err)
	}
	if all := <-got; !bytes.Equal(all, text) {
		t.Errorf("%d of %d bytes came", len(all), len(text))
	}
	if info, err := os.Stat(pipe); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the pipe is no pipe any more: %v %v", info, err)
	}
	if err := writeWhole(t.Context(), os.DevNull, text); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode()&os.ModeDevice == 0 {
		t.Errorf("%s is %v, %v", os.DevNull, info, err)
	}
}

func TestASignalEndsAnExportToAPipeThatNobodyReads(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	must(t, syscall.Mkfifo(pipe, 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ended := make(chan error, 1)
	go func() { ended <- writeWhole(ctx, pipe, []byte("x")) }()
	select {
	case err := <-ended:
		if !errors.Is(err, errUnread) {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(testkit.Patience):
		t.Errorf("it waits still, %v after the signal", testkit.Patience)
	}
	r, err := os.Open(pipe) // lets the write go
	must(t, err)
	defer r.Close()
	_, _ = io.ReadAll(r)
}
