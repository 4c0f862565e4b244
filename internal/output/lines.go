//go:build unix

package output

import (
	"bytes"
	"unicode/utf8"
)

// MaxLine is how long a line may be, in bytes. A longer one is cut into pieces. It is the bound of
// Docker's logs; journald's is three times that.
const MaxLine = 16 << 10

// lines cuts one stream into lines.
type lines struct{ held []byte } // the beginning of a line, MaxLine bytes at most

// feed calls emit for each line that data ends, without its line break, and for each piece of a
// line that is too long: then ends is false. The text is valid during the call.
func (l *lines) feed(data []byte, emit func(text []byte, ends bool)) {
	for len(data) > 0 {
		line, rest, found := bytes.Cut(data, []byte{'\n'})
		switch room := MaxLine - len(l.held); {
		case len(line) > room:
			piece := append(l.held, line[:room]...)
			cut := wholeRunes(piece)
			emit(piece[:cut], false)
			l.held = append(piece[:0], piece[cut:]...)
			data = data[room:]
			continue
		case !found:
			l.held = append(l.held, line...)
		case len(l.held) == 0:
			emit(line, true)
		default:
			emit(append(l.held, line...), true)
			l.held = nil // most streams are silent most of the time
		}
		data = rest
	}
}

// end emits a last line that has no line break.
func (l *lines) end(emit func(text []byte, ends bool)) {
	if len(l.held) > 0 {
		emit(l.held, true)
		l.held = nil
	}
}

// wholeRunes is how much of text can be cut off without cutting a character in two.
func wholeRunes(text []byte) int {
	for i := 1; i < utf8.UTFMax && i < len(text); i++ {
		if at := len(text) - i; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				return at
			}
			break
		}
	}
	return len(text)
}
