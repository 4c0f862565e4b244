package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/actors"
)

func TestAnExportIsReadAsTheSameItems(t *testing.T) {
	payloads := []string{"", "text", "with\ttabs\t", `"quoted"`, "a\nb", "\r", "ends in\r",
		"\xff\x00", " spaces ", "ü", "\x1b[31m", "#no comment", strings.Repeat("x", 300_000),
		"\x7f", "\u009b2J", "\u202egpj.exe", "a\u00a0b", "\ufffd"}
	for _, id := range []string{"w", "#w", "w w", `"w"`, "w\u202e", "#\u00a0w", "\ufeff"} {
		for _, only := range []bool{false, true} { // one payload, or all in one file
			var work []actors.WorkStatus
			for i, p := range payloads {
				work = append(work, actors.WorkStatus{ID: id + string(rune('a'+i)),
					Payload: []byte(p), Weight: uint64(i*i + 1)})
			}
			for i := range work {
				part := work
				if only {
					part = work[i : i+1]
				}
				items, err := parseItems("export", bytes.NewReader(formatItems(part)))
				must(t, err)
				if !slices.EqualFunc(items, part, func(x actors.WorkInput,
					y actors.WorkStatus) bool {
					return x.ID == y.ID && bytes.Equal(x.Payload, y.Payload) && x.Weight == y.Weight
				}) {
					t.Fatalf("of %.200q came %+v", formatItems(part), items)
				}
				if !only {
					break
				}
			}
		}
	}
}

func TestAFileOfColumnsThatCannotBeIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"#columns: weight":                            "f:1: there is no column id",
		"#columns: id id":                             `f:1: column "id" comes twice`,
		"#columns: id colour":                         `f:1: column "colour": known are`,
		"#columns: id payload weight":                 "f:1: the payload is the last column",
		"#columns: id weight\na\t0":                   `f:2: weight "0": give a whole number from 1`,
		"#columns: id weight\na\t2\nb\tx":             `f:3: weight "x"`,
		"#columns: id encoding payload\na\tx\ty":      `f:2: encoding "x": known are text and base64`,
		"#columns: id encoding payload\na\tbase64\ty": "f:2: payload: illegal base64",
		"#columns: id id-encoding\na\tx":              `f:2: encoding "x": known are text and`,
		"#columns: id-encoding id\nbase64\ta":         "f:2: id: illegal base64",
		"#columns: id id-encoding\nYS9i\tbase64":      `f:2: item id "a/b": invalid: it holds a`,
		"#columns: weight id\n2":                      "f:2: item id: invalid: it is empty",
	} {
		if _, err := parseItems("f", strings.NewReader(text)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestASyncThatRemovesMostOfTheWorkloadAsksForForce(t *testing.T) {
	for _, c := range []struct {
		add, same, remove int
		asks              bool
	}{
		{0, 0, 0, false}, {5, 0, 0, false}, {0, 0, 1, true}, {1, 0, 1, false}, {0, 1, 10, false},
		{0, 11, 11, false}, {0, 10, 11, true}, {50, 10, 11, true},
	} {
		d := difference{Add: make([]string, c.add), Same: c.same, Remove: make([]string, c.remove)}
		if got := d.tooMuch() != ""; got != c.asks {
			t.Errorf("%+v: %q", c, d.tooMuch())
		}
	}
}

func TestJSONIsNotTakenForIDs(t *testing.T) {
	for _, text := range []string{"[\n", "{\n", "[]", `["a","b"]`, `{"id": "a"}`, ` [{"id":"a"},`,
		"\n\n[1]", "\ufeff[\n", "# a comment\n{\n"} {
		if items, err := parseItems("f", strings.NewReader(text)); err == nil ||
			!strings.Contains(err.Error(), "this is JSON") {
			t.Errorf("%q: %v, %v", text, items, err)
		}
	}
	for _, text := range []string{"[a]", "{x}", "device-1\t{}", "#columns: id payload\n[1]\t",
		"a\n[1]", `"a"`} {
		if _, err := parseItems("f", strings.NewReader(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}
