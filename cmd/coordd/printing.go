package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf16"

	"github.com/coordd/coordd/internal/printable"
)

// maxCell is how much of a text a cell of a table shows, in bytes: more than any id has.
const maxCell = 600

// safe makes a text that another user wrote fit for a terminal. A text that holds a line break, an
// escape sequence or anything else that does not print is quoted. A very long text is cut.
func safe(text string) string {
	cut := ""
	if len(text) > maxCell {
		text, cut = strings.ToValidUTF8(text[:maxCell], ""), " …"
	}
	if strings.ContainsFunc(text, printable.Hidden) {
		text = strconv.Quote(text)
	}
	return text + cut
}

func safeList(texts []string) string {
	shown := make([]string, len(texts))
	for i, text := range texts {
		shown[i] = safe(text)
	}
	return strings.Join(shown, ", ")
}

// itemsText names up to three items, and says how many there are if there are more.
func itemsText(items []string) string {
	const most = 3
	if len(items) <= most {
		return safeList(items)
	}
	return fmt.Sprintf("%s (%s, …)", count(len(items), "item"), safeList(items[:most]))
}

// dash stands for an empty cell.
func dash(text string) string {
	if strings.TrimSpace(text) == "" {
		return "-"
	}
	return safe(text)
}

// count is "1 member" or "3 members".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// span is a length of time for people. Clocks differ: a negative time counts as none.
func span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Round(time.Second).Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

// moment is a time for people: without the date if that is today's.
func moment(t time.Time) string {
	t = t.Local()
	if t.Format(time.DateOnly) == time.Now().Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
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

// printJSON prints a value on several lines, and printLine on one.
func printJSON(w io.Writer, v any) error { return encode(w, v, "  ") }
func printLine(w io.Writer, v any) error { return encode(w, v, "") }

func encode(w io.Writer, v any, indent string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", indent)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(plainJSON(b.Bytes()))
	return err
}

// rows adds lines of a name and a text to a table, if they are to be there.
func rows(t io.Writer) func(yes bool, name, format string, args ...any) {
	return func(yes bool, name, format string, args ...any) {
		if yes {
			fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...))
		}
	}
}

// table writes rows of cells. Its columns are as wide as their widest cell.
func table(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

// isTerminal tells whether a person looks at what is written, on what can draw and colour.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// print prints what show writes. On a terminal its lines have colours, unless the user has said
// otherwise (https://no-color.org).
func (a *app) print(show func(w io.Writer) error) error {
	var b bytes.Buffer
	if err := show(&b); err != nil {
		return err
	}
	text := b.String()
	if isTerminal(a.out) && os.Getenv("NO_COLOR") == "" {
		text = coloured(text)
	}
	_, err := io.WriteString(a.out, text)
	return err
}

// lineColours are the colours of lines, by what they look like: heads of tables are bold, what is
// wrong is red, what is under way yellow.
var lineColours = []struct {
	looks  *regexp.Regexp
	colour string
}{
	{regexp.MustCompile(`^(MEMBER|ITEM) `), "\x1b[1m"},
	{regexp.MustCompile(`^(wrong|brake|state +(crash-looping|quarantined|free)) `), "\x1b[31m"},
	{regexp.MustCompile(`^\S+ +(crash-looping|quarantined|free|gone) |, silent since `), "\x1b[31m"},
	{regexp.MustCompile(`^(orders|skipped) |^\S+ +(starting|stopping|waiting|owned|leaving) |` +
		`, drained `), "\x1b[33m"},
}

func coloured(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		bare := strings.TrimSuffix(line, "\n")
		for _, c := range lineColours {
			if c.looks.MatchString(bare + " ") {
				line = c.colour + bare + "\x1b[0m\n"
				break
			}
		}
		b.WriteString(line)
	}
	return b.String()
}
