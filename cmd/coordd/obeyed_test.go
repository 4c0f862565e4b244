package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/asynclog"
	"github.com/coordd/coordd/internal/printable"
)

// obeyed is what a terminal does: a line break, CSI as one character, an OSC, an override of the
// direction of writing, a byte that is no text.
const obeyed = "x\n\u009b2J\x1b]52;c;aGk=\a\u202egpj.exe\xff"

func TestALogOnATerminalIsObeyedInNothing(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var b bytes.Buffer
		lines := asynclog.NewWriter(&b)
		log, err := (&logFlags{format: format, level: "info"}).logger(lines)
		must(t, err)
		log.Info("hello", "key", obeyed)
		if !lines.Flush(time.Minute) {
			t.Fatal("not flushed")
		}
		line := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
		if i := bytes.IndexFunc(line, printable.Hidden); i >= 0 {
			t.Errorf("%s: from %q on it is obeyed: %q", format, line[i:], line)
		}
		var said struct{ Key string }
		if format == "json" {
			want := strings.ToValidUTF8(obeyed, "\ufffd")
			if err := json.Unmarshal(line, &said); err != nil || said.Key != want {
				t.Errorf("%v: %q", err, said.Key)
			}
		}
	}
}

func TestTheBrakeInTheStatusIsObeyedInNothing(t *testing.T) {
	var b bytes.Buffer
	if err := printStatus(&b, actors.Status{Service: "demo",
		Brake: "60 of 60\u202edeyebo"}); err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b.Bytes()) {
		if line = bytes.TrimSuffix(line, []byte("\n")); bytes.ContainsFunc(line, printable.Hidden) {
			t.Errorf("%q", line)
		}
	}
}

// A payload, and an id, may hold all that UTF-8 can, but for an id's control characters.
func TestAnExportOfTheWorkloadIsObeyedInNothing(t *testing.T) {
	text := formatItems([]actors.WorkStatus{
		{ID: "w1", Weight: 1, Payload: []byte(obeyed)},
		{ID: "w2", Weight: 1, Payload: []byte("\u009d52;c;aGk=\u009c\u009b2J")},
		{ID: "w3", Weight: 1, Payload: []byte("\u202egpj.exe")},
		{ID: "w\u202e4", Weight: 1},
	})
	for line := range bytes.Lines(text) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		if i := bytes.IndexFunc(line, func(r rune) bool {
			return printable.Hidden(r) && r != '\t'
		}); i >= 0 {
			t.Errorf("from %q on it is obeyed: %q", line[i:], line)
		}
	}
}
