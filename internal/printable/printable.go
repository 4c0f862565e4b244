// Package printable makes texts that somebody else wrote fit for a terminal, a log line and an
// error's answer:
//
//	fmt.Fprintln(os.Stderr, printable.Line(err.Error()))
//
// What comes out holds no line break and nothing that a terminal obeys.
package printable

import (
	"strconv"
	"strings"
	"unicode"
)

// most is the longest text that Line returns in full, in bytes.
const most = 4000

// Line returns text as one line. Line breaks become "; ", what is [Hidden] is escaped, and a very
// long text is cut.
func Line(text string) string {
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + " …"
	}
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return r == '\n' || r == '\r'
	}), "; ")
	if !strings.ContainsFunc(text, Hidden) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if quoted := strconv.QuoteRuneToASCII(r); Hidden(r) {
			b.WriteString(strings.Trim(quoted, "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Hidden tells whether r does not print, or moves what does. The replacement character stands for
// bytes that are no UTF-8, so it is hidden as well.
func Hidden(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }
