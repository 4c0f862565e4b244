package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/actors/operator"
)

// printedItems is what work export prints of these items.
func printedItems(t *testing.T, work []operator.WorkInput) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, printWork(&b, work))
	return b.Bytes()
}

func TestAnExportIsReadAsTheSameItems(t *testing.T) {
	var work []operator.WorkInput
	for i, payload := range []string{"", "text", "with\ttabs", "two\nlines", "\x00\xff", "{}",
		"\u202e", "\ufeff", `"\ud800"`, strings.Repeat("x", 100_000)} {
		work = append(work, operator.WorkInput{ID: fmt.Sprintf("#w%d", i),
			Weight: uint64(i + 1), Payload: []byte(payload)})
	}
	text := printedItems(t, work)
	if i := bytes.IndexFunc(text, func(r rune) bool { return r != '\n' && r < ' ' }); i >= 0 ||
		bytes.ContainsRune(text, '\u202e') {
		t.Errorf("a terminal obeys it: %q", text)
	}
	items, err := parseItems("export", text)
	must(t, err)
	if !slices.EqualFunc(items, work, func(i, w operator.WorkInput) bool {
		return i.ID == w.ID && i.Weight == w.Weight && bytes.Equal(i.Payload, w.Payload)
	}) {
		t.Errorf("%d items came back as %d: %.300q", len(work), len(items), text)
	}
}

func TestAFileOfItemsIsReadAsItsLinesSay(t *testing.T) {
	items, err := parseItems("f", []byte("\ufeff# comment\r\n\na\r\nb\tof b\twith tabs \n"+
		`{"id": "c", "weight": 7, "payload": "of c"}`+"\n"+`{"id":"d","payload_base64":"AP8="}`))
	must(t, err)
	want := []operator.WorkInput{{ID: "a"}, {ID: "b", Payload: []byte("of b\twith tabs ")},
		{ID: "c", Weight: 7, Payload: []byte("of c")}, {ID: "d", Payload: []byte{0, 255}}}
	if !slices.EqualFunc(items, want, func(x, y operator.WorkInput) bool {
		return x.ID == y.ID && x.Weight == y.Weight && bytes.Equal(x.Payload, y.Payload)
	}) {
		t.Errorf("%+v", items)
	}
	for text, says := range map[string]string{
		"id\tweight\tpayload\na\t1\tx\n":       "f:1: this names columns",
		"#columns: id weight payload\na\t1\tx": "f:1: this names columns",
		"ID\tWeight\n":                         "f:1: this names columns",
		"\ufeffid,weight,payload\r\na,1,x\r\n": "f:1: this names columns",
		"payload;\"ID\"\n":                     "f:1: this names columns",
		"# a list\n# id\tpayload\na\tx\n":      "f:2: this names columns",
		"Id\n":                                 "f:1: this names columns",
		"id weight\na\n":                       "f:1: this names columns",
		"# of us\nId\tnotes\na\tx\n":           "f:2: this names columns",
		"[\"id\",\"weight\"]\n":                "f:1: this names columns",
		"[{\"id\":\"a\"}]\n":                   "f:1: this names columns",
		"[\n":                                  "f:1: this names columns",
		`{"id": "a", "wieght": 2}`:             `f:1: json: unknown field "wieght"`,
		`{"id": "a", "weight": -2}`:            "f:1: json: cannot unmarshal",
		"a\n\nb\na\n":                          `f:4: item "a" came on line 1 already`,
		"x/y":                                  `f:1: item id "x/y"`,
		`{"id": "a"}{"id": "b"}`:               "f:1: more than one object",
		`{"id": "a"} garbage`:                  "f:1: more than one object",
		"{}":                                   "f:1: ",
	} {
		if _, err := parseItems("f", []byte(text)); !errors.Is(err, errUsage) ||
			!strings.HasPrefix(err.Error(), says) {
			t.Errorf("%q: %v, want %s", text, err, says)
		}
	}
}

func TestAFileOfItemsIsReadWholeOrRefused(t *testing.T) {
	line := "\t" + strings.Repeat("x", 49_000) + "\n"
	var text strings.Builder
	for i := range 1400 { // 65 MiB: more than any value may have
		fmt.Fprintf(&text, "item-%d%s", i, line)
	}
	a := &app{surroundings: surroundings{in: strings.NewReader(text.String())}}
	read, err := a.readAll("-")
	must(t, err)
	items, err := parseItems("-", read)
	must(t, err)
	if len(items) != 1400 || len(items[1399].Payload) != 49_000 {
		t.Errorf("%d items", len(items))
	}
	if _, err := readAtMost(strings.NewReader("12345"), 4); err == nil {
		t.Error("five bytes where four may be were cut off, or taken")
	}
	if b, err := readAtMost(strings.NewReader("1234"), 4); string(b) != "1234" || err != nil {
		t.Error(string(b), err)
	}
}

// FuzzImport: a file is refused as a whole, naming a line, or gives items that can all be written,
// each id once.
func FuzzImport(f *testing.F) {
	for _, s := range []string{"", "a\n", "a\tpayload\nb\n", "\ufeffa\r\nb\r\n",
		"# comment\n\n  \n", "a\na\n", "a/b\n", "\t\n", " a\n", "a\t\x00\xff\n", "\xff\n", "..\n",
		"a\tb\tc", "%2e%2e\n", `{"id":"a","weight":2}`, `{"id":"a","payload_base64":"/w=="}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		items, err := parseItems("file", text)
		if err != nil {
			if !errors.Is(err, errUsage) || !strings.HasPrefix(err.Error(), "file:") ||
				items != nil {
				t.Errorf("%d items and %q: want bad usage that names the line", len(items), err)
			}
			return
		}
		seen := map[string]bool{}
		for _, w := range items {
			if err := w.Check(); err != nil || seen[w.ID] {
				t.Errorf("item %q: seen before %v, %v", w.ID, seen[w.ID], err)
			}
			seen[w.ID] = true
		}
	})
}

// What is like a heading and is an item: a word alone, and what names no column.
func TestAnItemMayBeCalledLikeAColumn(t *testing.T) {
	for _, text := range []string{"payload\n", "weight\tof a scale\n", "# id\na\n",
		"# item, name: x\n", "item\n", `{"id": "id", "payload": "weight"}` + "\n",
		"a\nid\tof a person\n"} {
		if _, err := parseItems("f", []byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}
