package configstore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// recordVersion is the version of the records below. A log of another version is refused.
const recordVersion = 1

// record is one record of the log, in JSON. The first record says whose log it is. The others are
// writes and what became of them.
type record struct {
	// The first one.
	Version int    `json:"coordd,omitempty"`
	ID      string `json:"id,omitempty"` // names the marker in Consul
	Service string `json:"service,omitempty"`
	Next    uint64 `json:"next,omitempty"` // numbers below were given out

	// A write.
	Seq uint64     `json:"write,omitempty"`
	At  *time.Time `json:"at,omitempty"`
	Ops []opRecord `json:"ops,omitempty"`

	// A write that is over.
	Done uint64 `json:"done,omitempty"`
	// the indexes of what it wrote; none: it was not applied
	Keys map[string]uint64 `json:"keys,omitempty"`

	// A write that was refused. It is never sent again. It is over when its caller was told or its
	// value is kept elsewhere.
	Refused uint64 `json:"refused,omitempty"`
	Why     string `json:"why,omitempty"`
}

type opRecord struct {
	Verb  string  `json:"op"` // set, remove, expect
	Key   string  `json:"key"`
	Value []byte  `json:"value,omitempty"`
	Flags uint64  `json:"flags,omitempty"`
	Index *uint64 `json:"index,omitempty"` // that the caller asked for
	Base  uint64  `json:"base,omitempty"`  // that the key had
	After uint64  `json:"after,omitempty"` // the number of the write that it is based on instead
}

var verbNames = [...]string{verbSet: "set", verbRemove: "remove", verbExpect: "expect"}

func encodeRecord(r record) []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("configstore: a record cannot fail to encode: %v", err))
	}
	return b
}

func (j *job) record() []byte {
	r := record{Seq: j.seq, At: &j.taken}
	for _, o := range j.ops {
		w := opRecord{Verb: verbNames[o.verb], Key: o.key, Value: o.value, Flags: o.flags,
			Base: o.base, After: o.after}
		if o.guard {
			w.Index = &o.index
		}
		r.Ops = append(r.Ops, w)
	}
	return encodeRecord(r)
}

func (r record) job() (*job, error) {
	j := &job{seq: r.Seq, logged: true, waited: true}
	if r.At != nil {
		j.taken = *r.At
	}
	for _, w := range r.Ops {
		o := Op{key: w.Key, value: w.Value, flags: w.Flags, base: w.Base, after: w.After}
		switch w.Verb {
		case "set":
		case "remove":
			o.verb = verbRemove
		case "expect":
			o.verb = verbExpect
		default:
			return nil,
				fmt.Errorf("%w: write %d in it has an operation %q that this version does not "+
					"know: use the version that wrote it",
					ErrInvalid, r.Seq, w.Verb)
		}
		if w.Index != nil {
			o.guard, o.index = true, *w.Index
		}
		j.size += o.cost()
		j.ops = append(j.ops, o)
	}
	if err := checkOps(j.ops); err != nil {
		return nil, fmt.Errorf("write %d in it: %w", r.Seq, err)
	}
	return j, nil
}

// firstRecord begins a log. Its id is unique, so no two logs share a marker.
func firstRecord(owner, service string) record {
	return record{Version: recordVersion, ID: logName(owner), Service: service, Next: 1}
}

// replayLog reads a log into an empty queue, and the refused writes that are not over into r. A new
// log has no records.
func replayLog(records [][]byte, service string, l *jobQueue, r *refusals) (first record,
	err error) {
	for i, data := range records {
		var rec record
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		if err := d.Decode(&rec); err != nil {
			return first,
				fmt.Errorf("%w: record %d does not parse: %v: use the version that wrote it, or "+
					"move the directory away",
					ErrInvalid, i+1, err)
		}
		switch {
		case i == 0:
			switch {
			case rec.Version != recordVersion:
				return first,
					fmt.Errorf("%w: it is of version %d, and this one reads version %d: use the "+
						"version that wrote it, or move the directory away",
						ErrInvalid, rec.Version, recordVersion)
			case rec.ID == "":
				return first, fmt.Errorf("%w: it names no writer: move the directory away",
					ErrInvalid)
			case rec.Service != service:
				return first,
					fmt.Errorf("%w: it holds the writes of service %q, not of %q: give each "+
						"service a directory of its own",
						ErrInvalid, rec.Service, service)
			}
			first = rec
			l.next = max(l.next, rec.Next)
		case rec.Seq != 0:
			j, err := rec.job()
			if err != nil {
				return first, err
			}
			l.push(j)
		case rec.Refused != 0:
			if j := l.finish(rec.Refused, nil); j != nil {
				r.unsaved = append(r.unsaved, unsavedRefusal{job: j, why: rec.Why})
			}
		case rec.Done != 0:
			r.unsaved = slices.DeleteFunc(r.unsaved, func(u unsavedRefusal) bool {
				return u.job.seq == rec.Done
			})
			l.next = max(l.next, rec.Done+1)
			if l.finish(rec.Done, rec.Keys) == nil && rec.Keys != nil {
				l.done[rec.Done] = rec.Keys // carried over by a rewrite
			}
		}
	}
	return first, nil
}

// compactLog returns the shortest log that replays to the same queue and refusals.
func compactLog(first record, l *jobQueue, r *refusals) [][]byte {
	first.Next = l.next
	out := [][]byte{encodeRecord(first)}
	// The writes come before what was done: a queue that runs empty forgets what was done.
	for _, u := range r.unsaved {
		out = append(out, u.job.record(), encodeRecord(record{Refused: u.job.seq, Why: u.why}))
	}
	needed := map[uint64]bool{}
	for _, j := range l.jobs {
		for _, o := range j.ops {
			needed[o.after] = true
		}
	}
	for seq, keys := range l.done {
		if needed[seq] {
			out = append(out, encodeRecord(record{Done: seq, Keys: keys}))
		}
	}
	for _, j := range l.jobs {
		if j.logged {
			out = append(out, j.record())
		}
	}
	return out
}
