package history

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Verb is what an event is about.
type Verb string

// The verbs, with the arguments that follow the time and the verb. PROC names one run of a
// member's process: member#instance; "-" is nobody's in particular. DURATION is as in Go: 1m30s.
const (
	Boot  Verb = "boot"  // PROC: it began
	Alive Verb = "alive" // PROC: it runs
	End   Verb = "end"   // PROC: it is over, and so is all its work
	// PROC: it was killed; its commands may go on, each up to its own last line
	Dead   Verb = "dead"
	Start  Verb = "start"  // PROC ITEM TOKEN: work began
	Stop   Verb = "stop"   // PROC ITEM TOKEN: nothing of the work was found any more
	Ran    Verb = "ran"    // PROC ITEM TOKEN: it was killed, or last seen to run: it ended since
	Step   Verb = "step"   // PROC ITEM TOKEN: the work did something at this moment
	Lead   Verb = "lead"   // PROC EPOCH: it leads, or goes on leading with a new epoch
	Unlead Verb = "unlead" // PROC EPOCH: it leads no more
	Freeze Verb = "freeze" // PROC: it stands still
	Thaw   Verb = "thaw"   // PROC: it goes on
	// PROC: its session or its lock was taken away, or may have been, before the lease was over
	Early Verb = "early"
	// PROC INDEX EPOCH KEY VALUE: Consul accepted a write; EPOCH 0: no leader's
	Set   Verb = "set"
	Del   Verb = "del"   // PROC INDEX EPOCH KEY: Consul accepted a delete
	Acked Verb = "acked" // PROC KEY VALUE: a write was acknowledged to its one writer
	Try   Verb = "try"   // PROC KEY VALUE: a write was begun by its one writer
	// PROC KEY VALUE: a config value is to be written, KEY being config_data/…; no two writes have
	// the same value
	Ask  Verb = "ask"
	Told Verb = "told" // PROC KEY VALUE: its caller hears that Consul has it
	// PROC KEY VALUE: its caller hears that it is in the log, and waits no longer
	Logged Verb = "logged"
	// PROC KEY VALUE: its caller, or a reader of the reports, hears that it is not applied and
	// will not be
	Refused Verb = "refused"
	// PROC INDEX KEY VALUE: a read of a config value; INDEX 0: there is no such key
	Saw      Verb = "saw"
	Restored Verb = "restored" // - DURATION: Consul lost writes; the duration is the amnesty
	// - DURATION SPREAD: the faults are over; all is well within the duration, with a spread of at
	//   most SPREAD items (negative: any)
	Calm  Verb = "calm"
	Close Verb = "close" // - : from here on everything is stopped on purpose
)

// fields says which fields of an Event a verb has, in order.
var fields = map[Verb]string{
	Boot: "p", Alive: "p", End: "p", Dead: "p",
	Start: "pit", Stop: "pit", Ran: "pit", Step: "pit",
	Lead: "pe", Unlead: "pe", Freeze: "p", Thaw: "p", Early: "p",
	Set: "pxekv", Del: "pxek", Acked: "pkv", Try: "pkv", Ask: "pkv", Told: "pkv", Logged: "pkv",
	Refused: "pkv", Saw: "pxkv", Restored: "pd", Calm: "pds", Close: "p",
}

// Event is one line: TIME VERB and the verb's arguments, separated by spaces. TIME is RFC 3339 with
// up to nine decimals. Ids, keys and values are escaped as in a URL's query; an empty one is "-",
// and one that is a dash is "%2D".
type Event struct {
	At     time.Time
	Verb   Verb
	Proc   string
	Item   string
	Token  uint64
	Epoch  uint64
	Index  uint64
	Key    string // below the service's root: assignments/m1/w1
	Value  string
	For    time.Duration
	Spread int
}

// Member is the member's id in Proc.
func (e Event) Member() string {
	if i := strings.LastIndexByte(e.Proc, '#'); i >= 0 {
		return e.Proc[:i]
	}
	return e.Proc
}

// ErrFormat is returned when a line is not an event; the text says which line, and why.
var ErrFormat = errors.New("not a history")

func escape(s string) string {
	switch s {
	case "":
		return "-"
	case "-":
		return "%2D"
	}
	return url.QueryEscape(s)
}

func unescape(s string) (string, error) {
	if s == "-" {
		return "", nil
	}
	return url.QueryUnescape(s)
}

// String is the line, without its end.
func (e Event) String() string {
	b := make([]byte, 0, 96)
	b = e.At.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, ' ')
	b = append(b, e.Verb...)
	for _, f := range fields[e.Verb] {
		b = append(b, ' ')
		switch f {
		case 'p':
			b = append(b, escape(e.Proc)...)
		case 'i':
			b = append(b, escape(e.Item)...)
		case 't':
			b = strconv.AppendUint(b, e.Token, 10)
		case 'e':
			b = strconv.AppendUint(b, e.Epoch, 10)
		case 'x':
			b = strconv.AppendUint(b, e.Index, 10)
		case 'k':
			b = append(b, escape(e.Key)...)
		case 'v':
			b = append(b, escape(e.Value)...)
		case 'd':
			b = append(b, e.For.String()...)
		case 's':
			b = strconv.AppendInt(b, int64(e.Spread), 10)
		}
	}
	return string(b)
}

// MarshalText is the line in JSON.
func (e Event) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// ParseEvent reads one line. Errors: [ErrFormat].
func ParseEvent(line string) (Event, error) {
	words := strings.Fields(line)
	if len(words) < 2 {
		return Event{}, fmt.Errorf("%w: %q: want a time and a verb", ErrFormat, line)
	}
	e := Event{Verb: Verb(words[1])}
	want, known := fields[e.Verb]
	if !known {
		return Event{}, fmt.Errorf("%w: %q: there is no verb %q", ErrFormat, line, words[1])
	}
	if len(words)-2 != len(want) {
		return Event{}, fmt.Errorf("%w: %q: %s takes %d arguments", ErrFormat, line, e.Verb,
			len(want))
	}
	var err error
	if e.At, err = time.Parse(time.RFC3339Nano, words[0]); err != nil {
		return Event{}, fmt.Errorf("%w: %q: %v", ErrFormat, line, err)
	}
	for i, f := range want {
		w := words[i+2]
		switch f {
		case 'p':
			e.Proc, err = unescape(w)
		case 'i':
			e.Item, err = unescape(w)
		case 't':
			e.Token, err = strconv.ParseUint(w, 10, 64)
		case 'e':
			e.Epoch, err = strconv.ParseUint(w, 10, 64)
		case 'x':
			e.Index, err = strconv.ParseUint(w, 10, 64)
		case 'k':
			e.Key, err = unescape(w)
		case 'v':
			e.Value, err = unescape(w)
		case 'd':
			e.For, err = time.ParseDuration(w)
		case 's':
			e.Spread, err = strconv.Atoi(w)
		}
		if err != nil {
			return Event{}, fmt.Errorf("%w: %q: argument %d: %v", ErrFormat, line, i+1, err)
		}
	}
	if e.Proc == "" && !withoutProcess[e.Verb] {
		return Event{}, fmt.Errorf("%w: %q: %s needs a process", ErrFormat, line, e.Verb)
	}
	return e, nil
}

// torn is the end of a line that was not written whole. No event has a # in it.
const torn = "#torn"

// Mend prepares a file for more events. If the last writer was killed in the middle of a line, or
// the disk was full, it marks that line, and [Read] skips it. f must be open for reading and
// appending. Errors: those of f.
func Mend(f *os.File) error {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return err
	}
	var last [1]byte
	if _, err := f.ReadAt(last[:], info.Size()-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err = f.WriteString(" " + torn + "\n")
	return err
}

// Read reads a history. It skips empty lines, lines that begin with #, lines that [Mend] has
// marked, and a last line without an end. Errors: [ErrFormat], with the line's number, and those of
// r.
func Read(r io.Reader) ([]Event, error) {
	lines := bufio.NewReaderSize(r, 64<<10)
	var events []Event
	for n := 1; ; n++ {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' ||
			strings.HasSuffix(line, torn) {
			continue
		}
		e, err := ParseEvent(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		events = append(events, e)
	}
}

// Merge puts the histories of several writers into one, by time; events of the
// same moment keep the order they were given in.
func Merge(histories ...[]Event) []Event {
	all := slices.Concat(histories...)
	slices.SortStableFunc(all, func(a, b Event) int {
		return cmp.Compare(a.At.UnixNano(), b.At.UnixNano())
	})
	return all
}
