//go:build unix

package output

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// piece is what lines emits.
type piece struct {
	text string
	ends bool
}

func cut(chunks ...[]byte) (pieces []piece) {
	var l lines
	emit := func(text []byte, ends bool) { pieces = append(pieces, piece{string(text), ends}) }
	for _, c := range chunks {
		l.feed(c, emit)
	}
	l.end(emit)
	return pieces
}

func TestALineIsCutAtItsBound(t *testing.T) {
	full := strings.Repeat("x", MaxLine)
	for _, tt := range []struct {
		name, text string
		want       []piece
	}{
		{"a full line", full + "\n", []piece{{full, true}}},
		{"one more", full + "y\n", []piece{{full, false}, {"y", true}}},
		{"no end", full + full + "y", []piece{{full, false}, {full, false}, {"y", true}}},
		{"a character across the bound", full[1:] + "é\n",
			[]piece{{full[1:], false}, {"é", true}}},
		{"no text", full[4:] + "\xf0\xf0\xf0\xf0\xf0\xf0\n",
			[]piece{{full[4:] + "\xf0\xf0\xf0", false}, {"\xf0\xf0\xf0", true}}},
		{"empty lines", "\n\na", []piece{{"", true}, {"", true}, {"a", true}}},
		{"nothing", "", nil},
	} {
		if got := cut([]byte(tt.text)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %d pieces that are not the %d wanted", tt.name, len(got),
				len(tt.want))
		}
	}
}

func TestNoByteIsLostByCutting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.OneOf(
			rapid.Custom(func(t *rapid.T) []byte {
				what := rapid.SampledFrom([]string{"x", "é", "界", "\xff", "\n"}).Draw(t, "what")
				return bytes.Repeat([]byte(what), rapid.IntRange(0, MaxLine+5).Draw(t, "times"))
			}),
			rapid.SliceOf(rapid.Byte()))
		chunks := rapid.SliceOf(part).Draw(t, "chunks")
		all := slices.Concat(chunks...)
		var back []byte
		pieces := cut(chunks...)
		for i, p := range pieces {
			if len(p.text) > MaxLine {
				t.Fatalf("a piece of %d bytes", len(p.text))
			}
			if utf8.Valid(all) && !utf8.ValidString(p.text) {
				t.Fatalf("%.20q: a character is cut in two", p.text)
			}
			back = append(back, p.text...)
			if p.ends && (i < len(pieces)-1 || bytes.HasSuffix(all, []byte("\n"))) {
				back = append(back, '\n')
			}
		}
		if !bytes.Equal(back, all) {
			t.Fatalf("%d bytes became %d", len(all), len(back))
		}
	})
}
