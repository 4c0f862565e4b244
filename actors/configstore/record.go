package configstore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/coordd/coordd/internal/store"
)

// recordVersion is the version of the records below. A log of another version is refused.
const recordVersion = 2

// record is one record of the log, in JSON. The first record says whose log it is. The others are
// writes and what became of them.
type record struct {
	// The first one.
	Version int    `json:"coordd,omitempty"`
	ID      string `json:"id,omitempty"` // chooses the sequence key
	Service string `json:"service,omitempty"`
	Next    uint64 `json:"next,omitempty"` // numbers below were given out

	// A write.
	Seq  uint64     `json:"write,omitempty"`
	Name string     `json:"name,omitempty"` // of its transaction
	At   *time.Time `json:"at,omitempty"`
	Ops  []opRecord `json:"ops,omitempty"`

	// A write that is over.
	Done uint64 `json:"done,omitempty"`
	// the indexes of what it wrote; none: it was not applied
	Keys map[string]uint64 `json:"keys,omitempty"`

	// A write that was refused, or of which nobody knows what became. It is never sent again. It is
	// over when its caller was told or its value is in the file "conflicts".
	Refused uint64 `json:"refused,omitempty"`
	Why     string `json:"why,omitempty"`

	// Of each: the name of the last transaction that was known under the sequence key when no write
	// was in flight.
	Last string `json:"last,omitempty"`
}

type opRecord struct {
	Verb  string  `json:"op"` // set, remove, expect
	Key   string  `json:"key"`
	Value []byte  `json:"value,omitempty"`
	Flags uint64  `json:"flags,omitempty"`
	Index *uint64 `json:"index,omitempty"` // that the caller asked for
	Base  uint64  `json:"base,omitempty"`  // that the key had
}

var verbNames = [...]string{verbSet: "set", verbRemove: "remove", verbExpect: "expect"}

func (r record) encode() []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("configstore: a record cannot fail to encode: %v", err))
	}
	return b
}

func (j *job) record() record {
	r := record{Seq: j.number, Name: j.name, At: &j.taken}
	for _, o := range j.ops {
		w := opRecord{Verb: verbNames[o.verb], Key: o.key, Value: o.value, Flags: o.flags,
			Base: o.base}
		if o.guard {
			w.Index = &o.index
		}
		r.Ops = append(r.Ops, w)
	}
	return r
}

func (r record) job() (*job, error) {
	j := &job{number: r.Seq, name: r.Name, logged: true, late: true}
	if r.At != nil {
		j.taken = *r.At
	}
	for _, w := range r.Ops {
		at := slices.Index(verbNames[:], w.Verb)
		if at < 0 {
			return nil, fmt.Errorf("%w: write %d in it has an operation %q that this version does "+
				"not know: use the version that wrote it", ErrInvalid, r.Seq, w.Verb)
		}
		o := Op{key: w.Key, value: w.Value, verb: verb(at), flags: w.Flags, base: w.Base}
		if w.Index != nil {
			o.guard, o.index = true, *w.Index
		}
		j.size += o.cost()
		j.ops = append(j.ops, o)
	}
	if err := Check(j.ops...); err != nil {
		return nil, fmt.Errorf("write %d in it: %w", r.Seq, err)
	}
	return j, nil
}

// replay reads a log into the empty outbox. A new log has no records.
func (b *outboxState) replay(records [][]byte, service string) error {
	last := ""
	for i, data := range records {
		var rec record
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		if err := d.Decode(&rec); err != nil {
			return fmt.Errorf("%w: record %d does not parse: %v: use the version that wrote it, or "+
				"move the directory away", ErrInvalid, i+1, err)
		}
		if rec.Last != "" {
			last = rec.Last
		}
		switch {
		case i == 0:
			switch {
			case rec.Version != recordVersion:
				return fmt.Errorf("%w: it is of version %d, and this one reads version %d: use the "+
					"version that wrote it, or move the directory away",
					ErrInvalid, rec.Version, recordVersion)
			case rec.Service != service:
				return fmt.Errorf("%w: it holds the writes of service %q, not of %q: give each "+
					"service a directory of its own", ErrInvalid, rec.Service, service)
			}
			b.first = rec
			b.queue.next = max(b.queue.next, rec.Next)
		case rec.Seq != 0:
			j, err := rec.job()
			if err != nil {
				return err
			}
			b.queue.push(j)
		case rec.Refused != 0:
			if j := b.queue.find(rec.Refused); j != nil {
				j.refused = rec.Why
			}
		case rec.Done != 0:
			if j := b.queue.find(rec.Done); j != nil {
				b.queue.finish(j, rec.Keys, 0)
			}
		}
	}
	b.last = last
	for _, j := range slices.Clone(b.queue.jobs) {
		if j.refused != "" {
			if err := b.keep(j); err != nil {
				return err
			}
			b.queue.finish(j, nil, 0)
			if err := b.wal.Note(record{Done: j.number}.encode(), false); err != nil {
				return err
			}
		}
	}
	// Only the first can have been sent: see [outbox.finish].
	if len(b.queue.jobs) > 0 {
		j := b.queue.jobs[0]
		j.state, j.since = inFlight, store.SequenceAfter(last)
	}
	return nil
}

// compact returns the shortest log that replays to the same outbox.
func (b *outboxState) compact() [][]byte {
	b.first.Next, b.first.Last = b.queue.next, b.last
	out := [][]byte{b.first.encode()}
	for _, j := range b.queue.jobs {
		if j.logged {
			out = append(out, j.record().encode())
		}
		if j.refused != "" {
			out = append(out, record{Refused: j.number, Why: j.refused}.encode())
		}
	}
	return out
}
