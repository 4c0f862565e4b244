package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/coordd/coordd/internal/printable"
)

// maxCell is how much of a text from outside a line of a table shows, in bytes: more than any id
// has.
const maxCell = 600

// foreign makes a text that somebody else wrote fit for a table on a terminal: what holds a line
// break, a tab, an escape sequence or anything else that does not print is quoted, and what is very
// long is cut.
func foreign(text string) string {
	cut := ""
	if len(text) > maxCell {
		text, cut = strings.ToValidUTF8(text[:maxCell], ""), " …"
	}
	if strings.ContainsFunc(text, printable.Hidden) {
		text = strconv.Quote(text)
	}
	return text + cut
}

// foreigners does so with each of several.
func foreigners(texts []string) string {
	shown := make([]string, len(texts))
	for i, text := range texts {
		shown[i] = foreign(text)
	}
	return strings.Join(shown, ", ")
}

// plainJSON escapes what encoding/json leaves in strings and a terminal obeys: the control
// characters above ASCII, and those that change the direction of writing. It is the same JSON.
func plainJSON(text []byte) []byte {
	if !bytes.ContainsFunc(text, func(r rune) bool { return printable.Hidden(r) && r != '\n' }) {
		return text
	}
	var b bytes.Buffer
	for _, r := range string(text) {
		switch {
		case r == '\n' || !printable.Hidden(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}
