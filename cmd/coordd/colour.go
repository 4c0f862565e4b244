package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/coordd/coordd/actors"
)

// The colours, as a terminal has them.
const (
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
	bold   = "\x1b[1m"
	reset  = "\x1b[0m"
)

// colours tells whether what a command prints may have colours: somebody looks at it on a terminal
// and has not said otherwise (https://no-color.org).
func (a *app) colours() bool {
	return isTerminal(a.out) && os.Getenv("NO_COLOR") == ""
}

// print prints what show writes, with colours where they help.
func (a *app) print(show func(w *bytes.Buffer) error) error {
	var b bytes.Buffer
	if err := show(&b); err != nil {
		return err
	}
	text := b.Bytes()
	if a.colours() {
		text = []byte(coloured(b.String()))
	}
	_, err := a.out.Write(text)
	return err
}

// stateColours are those of the states in which something is wrong or under way. What runs has
// none.
var stateColours = map[string]string{
	string(actors.ItemLooping): red, string(actors.ItemQuarantined): red,
	string(actors.ItemFree): red, string(actors.ItemWaiting): yellow,
	string(actors.ItemStarting): yellow, string(actors.ItemStopping): yellow,
	string(actors.ItemOwned): yellow,
}

// lineColours are those of lines that begin with a word.
var lineColours = map[string]string{"wrong": red + bold, "brake": red, "orders": yellow,
	"skipped": yellow}

// columnColours say the colour of a cell by its column; empty: none.
var columnColours = map[string]func(cell string) string{
	"STATE": func(cell string) string { return stateColours[cell] },
	"STATUS": func(cell string) string {
		switch {
		case strings.HasPrefix(cell, actors.StatusGone), strings.Contains(cell, "silent"):
			return red
		case !strings.HasPrefix(cell, "alive"), strings.Contains(cell, "drained"):
			return yellow
		}
		return ""
	},
	"STARTING": unlessZero(yellow), "LOOPING": unlessZero(red), "STOPPING": unlessZero(yellow),
	"WAITING": unlessZero(yellow),
}

func unlessZero(colour string) func(string) string {
	return func(cell string) string {
		if cell == "0" {
			return ""
		}
		return colour
	}
}

// aHead is a name in the first line of a table, and stateLine the line of one item's state.
var (
	aHead     = regexp.MustCompile(`[A-Z]+`)
	stateLine = regexp.MustCompile(`^(state +)([a-z-]+)`)
)

// coloured puts colours into what status, members, items and explain print. They are put in behind
// the widths of the columns, which they would change.
func coloured(text string) string {
	lines := strings.SplitAfter(text, "\n")
	var heads [][]int // of the table that the line is in
	var head string
	for n, line := range lines {
		first, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case strings.TrimSpace(line) == "":
			heads = nil
		case first == "MEMBER" || first == "ITEM":
			head, heads = line, aHead.FindAllStringIndex(line, -1)
			lines[n] = painted(line, bold)
		case heads != nil:
			lines[n] = rowColoured(line, head, heads)
		case lineColours[first] != "":
			lines[n] = painted(line, lineColours[first])
		default:
			if m := stateLine.FindStringSubmatch(line); m != nil && stateColours[m[2]] != "" {
				lines[n] = m[1] + painted(m[2], stateColours[m[2]]) + line[len(m[0]):]
			}
		}
	}
	return strings.Join(lines, "")
}

// rowColoured colours the cells of a row. Columns are aligned by characters, and the heads are
// ASCII, so that a byte of theirs is a character.
func rowColoured(line, head string, heads [][]int) string {
	runes := []rune(strings.TrimSuffix(line, "\n"))
	var b strings.Builder
	at := 0
	for i, h := range heads {
		end := len(runes)
		if i+1 < len(heads) {
			end = min(end, heads[i+1][0])
		}
		colour := columnColours[head[h[0]:h[1]]]
		if colour == nil || h[0] >= end || h[0] < at {
			continue
		}
		cell := strings.TrimRight(string(runes[h[0]:end]), " ")
		if c := colour(cell); c != "" {
			b.WriteString(string(runes[at:h[0]]) + painted(cell, c))
			at = h[0] + utf8.RuneCountInString(cell)
		}
	}
	return b.String() + string(runes[at:]) + "\n"
}

// painted colours a text, but not the end of its line.
func painted(text, colour string) string {
	bare := strings.TrimSuffix(text, "\n")
	return colour + bare + reset + text[len(bare):]
}
