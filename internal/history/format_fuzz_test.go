package history_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/history"
)

// FuzzRead: what is read as a history is written again as the same events, and
// can be judged; what is not says so.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		"", "# a comment\n", "2000-01-01T00:00:00Z boot m1#a\n",
		"2000-01-01T00:00:00.5Z start m1#a w%2F1 7\n2000-01-01T00:00:01Z stop m1#a w%2F1 7\n",
		"2000-01-01T00:00:00Z set - 5 0 members/m1 -\n",
		"2000-01-01T00:00:00Z set m#a 5 4 assignments/m/w %7B%22s%22%3A%22own%22%7D\n",
		"2000-01-01T00:00:00Z calm - 1m30s -1\n2000-01-01T00:05:00Z close -\n",
		"2000-01-01T00:00:00Z restored - 10s\n",
		"2000-01-01T00:00:00Z lead m#a 3\n2000-01-01T00:00:02Z freeze m#a\n2000-01-01T00:00:02Z " +
			"thaw m#a\n2000-01-01T00:00:03Z end m#a\n",
		"2000-01-01T00:00:00Z start m#a w 3\n2000-01-01T00:00:02Z dead m#a\n2000-01-01T00:00:02Z " +
			"step m#a w 3\n2000-01-01T00:00:03Z end m#a\n",
		"2000-01-01T00:00:00Z step - - 18446744073709551616\n", "0000-01-01T00:00:00Z boot #\n",
		"2000-01-01T00:00:00Z acked m k %zz\n", "x", "2000-01-01T00:00:00Z del - 1 0 a\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		events, err := history.Read(bytes.NewReader(text))
		if err != nil {
			if !errors.Is(err, history.ErrFormat) || events != nil {
				t.Fatalf("%v with %d events: want ErrFormat alone", err, len(events))
			}
			return
		}
		var again strings.Builder
		for _, e := range events {
			again.WriteString(e.String() + "\n")
		}
		back, err := history.Read(strings.NewReader(again.String()))
		if err != nil || len(back) != len(events) {
			t.Fatalf("%d events are written as %q, which reads as %d: %v", len(events),
				again.String(), len(back), err)
		}
		for i, e := range events {
			if at := back[i].At; !at.Equal(e.At) {
				t.Fatalf("%v became %v", e.At, at)
			}
			if back[i].At = e.At; back[i] != e {
				t.Fatalf("%+v became %+v", e, back[i])
			}
		}
		history.Check(events, history.Options{})
	})
}
