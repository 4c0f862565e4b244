package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"
)

// errUnread is what a command ends with whose output nobody took when it was told to stop.
var errUnread = errors.New("stopped by a signal while nobody took its output")

// unread says of output what reading says of input.
func unread(err error) error {
	if errors.Is(err, errInterrupted) {
		return errUnread
	}
	return err
}

// outlet is a command's standard output, or what it draws on the terminal that is its standard
// error: nobody may ever read either. What is written after ctx has
// ended has a moment to be taken. A write that is given up goes on with a copy of what it was
// given, and the process's end is its own.
type outlet struct {
	ctx  context.Context
	to   io.Writer
	gone atomic.Bool // a write was given up
	err  atomic.Pointer[error]
}

// bare is what an outlet writes to, for what has to know or to inherit it.
func bare(w io.Writer) io.Writer {
	if o, ok := w.(*outlet); ok {
		return o.to
	}
	return w
}

// failure is why a write failed, of the first that did, or nil.
func (o *outlet) failure() error {
	if err := o.err.Load(); err != nil {
		return *err
	}
	return nil
}

func (o *outlet) Write(p []byte) (int, error) {
	if o.gone.Load() {
		return 0, errUnread
	}
	lasting, cancel := context.WithCancel(context.WithoutCancel(o.ctx))
	defer cancel()
	stop := context.AfterFunc(o.ctx, func() {
		last := time.AfterFunc(flushLimit, cancel)
		<-lasting.Done()
		last.Stop()
	})
	defer stop()
	text := bytes.Clone(p)
	n, err := reading(lasting, func() (int, error) { return o.to.Write(text) })
	if errors.Is(err, errInterrupted) {
		o.gone.Store(true)
	}
	if err = unread(err); err != nil {
		o.err.CompareAndSwap(nil, &err)
	}
	return n, err
}
