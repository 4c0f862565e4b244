package history_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/history"
	"github.com/coordd/coordd/internal/testkit"
)

func TestEveryLineReadsBackAsItWasWritten(t *testing.T) {
	testkit.Draws(t, func(t *testing.T, d testkit.Dice) {
		text := func() (s string) {
			for range d.IntN(7) {
				s += string(testkit.Pick(d, []rune("-abcdefghijklmnopqrstuvwxyz %#/äö\n\"")...))
			}
			return s
		}
		verbs := []history.Verb{history.Boot, history.Dead, history.Start, history.Stop,
			history.Step, history.Lead, history.Set, history.Del, history.Try, history.Ask,
			history.Told, history.Logged, history.Refused, history.Saw, history.Restored,
			history.Calm, history.Close}
		e := history.Event{At: time.Unix(d.Int64N(1<<33), d.Int64N(1_000_000_000)).UTC(),
			Verb: testkit.Pick(d, verbs...), Proc: "p" + text()}
		switch e.Verb {
		case history.Start, history.Stop, history.Step:
			e.Item, e.Token = text(), d.Uint64()
		case history.Lead:
			e.Epoch = d.Uint64()
		case history.Set:
			e.Index, e.Epoch, e.Key, e.Value = d.Uint64(), 3, text(), text()
		case history.Saw:
			e.Index, e.Key, e.Value = d.Uint64(), text(), text()
		case history.Try, history.Ask, history.Told, history.Logged, history.Refused:
			e.Key, e.Value = text(), text()
		case history.Calm:
			e.For, e.Spread = time.Duration(d.Int64N(1<<40)), d.IntN(11)-1
		}
		var b bytes.Buffer
		history.NewRecorder(&b).Add(e)
		got, err := history.Read(&b)
		if err != nil || len(got) != 1 || got[0] != e {
			t.Fatalf("%q: %+v, want %+v, %v", b.String(), got, e, err)
		}
	})
}

func TestLinesThatAreNoEventsAreRefusedWithTheirNumber(t *testing.T) {
	good := "2000-01-01T00:00:00Z boot a#1\n"
	for _, bad := range []string{"x\n", "2000-01-01T00:00:00Z dance a#1\n",
		"2000-01-01T00:00:00Z start a#1 w1\n", "2000-01-01T00:00:00Z start a#1 w1 five\n",
		"yesterday boot a#1\n", "2000-01-01T00:00:00Z boot -\n",
		"2000-01-01T00:00:00Z boot %zz\n"} {
		_, err := history.Read(strings.NewReader("# a comment\n" + good + bad))
		if !errors.Is(err, history.ErrFormat) || !strings.Contains(err.Error(), "line 3") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestALineThatWasCutOffIsInNobodysWay(t *testing.T) {
	name := filepath.Join(t.TempDir(), "h")
	for _, written := range []string{
		"2000-01-01T00:00:01Z boot a%231\n2000-01-01T00:00:02Z start a%2", // the disk was full
		"2000-01-01T00:00:03Z boot a%232\n",
		"2000-01-01T00:00:04Z boot a%233\n2",                                  // and once more
		"2000-01-01T00:00:05Z boot a%234\n2000-01-01T00:00:06Z start a%234 w", // at the end
	} {
		f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if err := history.Mend(f); err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(written); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	events, err := history.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	var procs []string
	for _, e := range events {
		procs = append(procs, e.Proc)
	}
	if want := []string{"a#1", "a#2", "a#3", "a#4"}; !slices.Equal(procs, want) {
		t.Errorf("read %v, want %v", procs, want)
	}
}

func TestMergePutsHistoriesInOrder(t *testing.T) {
	a, b := read(t, "1 boot a#1\n3 end a#1"), read(t, "0 boot b#1\n2 end b#1")
	var got []string
	for _, e := range history.Merge(a, b) {
		got = append(got, e.Proc+" "+string(e.Verb))
	}
	if s := strings.Join(got, ", "); s != "b#1 boot, a#1 boot, b#1 end, a#1 end" {
		t.Error(s)
	}
}

func TestAFailedWriteEndsTheRecordingAndIsKept(t *testing.T) {
	boom := errors.New("disk full")
	r := history.NewRecorder(writer(func([]byte) (int, error) { return 0, boom }))
	r.Add(history.Event{Verb: history.Close})
	r.Add(history.Event{Verb: history.Close})
	if !errors.Is(r.Err(), boom) {
		t.Error(r.Err())
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }
