package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/coordd/coordd/actors"
)

// watchEvery is how often status --watch looks.
const watchEvery = time.Second

// view is a way to show a status that is looked at again and again. What it writes is shown when it
// differs from what was shown last. Err is why there is no status: Consul does not answer.
type view func(w io.Writer, s actors.Status, err error) error

// watchStatus shows the status whenever it has changed, until it is told to stop: on a terminal the
// screen is drawn anew, elsewhere each change is a line.
func (a *app) watchStatus(ctx context.Context, o *actors.Operator, asJSON, check bool) error {
	show, before := view(lineView), func() string { return time.Now().Format(time.DateTime) + " " }
	switch {
	case asJSON:
		show, before = jsonView, func() string { return "" }
	case check:
		show = checkView
	case isTerminal(a.out):
		// to the top, and what is there is cleared: no scrolling
		show = screenView
		before = func() string {
			return "\033[H\033[2J" + time.Now().Format(time.DateTime) + "\n\n"
		}
	}
	var last []byte
	for {
		status, err := o.Status(ctx)
		if ctx.Err() != nil {
			return nil // it was to stop
		}
		if err != nil && !errors.Is(err, actors.ErrUnreachable) {
			return err
		}
		var now bytes.Buffer
		if err := show(&now, status, err); err != nil {
			return err
		}
		if now.Len() > 0 && !bytes.Equal(now.Bytes(), last) {
			last = now.Bytes()
			text := string(last)
			if !asJSON && !check && a.colours() {
				text = coloured(text)
			}
			if _, err := fmt.Fprint(a.out, before()+text); err != nil {
				return err
			}
		}
		select {
		case <-time.After(watchEvery):
		case <-ctx.Done():
			return nil
		}
	}
}

// away is what is shown while Consul does not answer.
const away = "Consul does not answer"

// screenView is what status prints.
func screenView(w io.Writer, s actors.Status, err error) error {
	if err != nil {
		_, err = fmt.Fprintf(w, "%s: %s\n", away, foreign(err.Error()))
		return err
	}
	return printStatus(w, s)
}

// lineView says in one line who leads, how many members there are, what the work does and what is
// wrong.
func lineView(w io.Writer, s actors.Status, err error) error {
	if err != nil {
		_, err = fmt.Fprintln(w, away)
		return err
	}
	leads := "nobody leads"
	if s.Leader != nil {
		leads = foreign(s.Leader.ID) + " leads"
	}
	_, err = fmt.Fprintf(w, "%s, %s, %s: %s\n", leads, count(len(s.Members), "member"),
		workInWords(s), verdict(s))
	return err
}

// checkView is what status --check prints.
func checkView(w io.Writer, s actors.Status, err error) error {
	text := away
	if err == nil {
		text = verdict(s)
	}
	_, err = fmt.Fprintln(w, text)
	return err
}

// jsonView is the status as one line of JSON; nothing while Consul does not answer.
func jsonView(w io.Writer, s actors.Status, err error) error {
	if err != nil {
		return nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return err
	}
	_, err = w.Write(plainJSON(b.Bytes()))
	return err
}

// isTerminal tells whether somebody looks at what is written, on what can draw and colour.
func isTerminal(w io.Writer) bool {
	if os.Getenv("TERM") == "dumb" {
		return false
	}
	f, ok := bare(w).(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
