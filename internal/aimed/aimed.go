// Package aimed has values that somebody aims at a cluster, one in each field of each kind of key
// that it reads: impossible sessions, huge numbers, wrong types. Only tests use it: those of
// internal/protocol read each of them, test/simulation draws them beside its other faults.
package aimed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Values are what each field is given. In JSON, as they stand there.
var Values = []string{
	`"a b"`, `"a/b"`, `"a\nb"`, `"."`, `".."`, `"%2e%2e"`, `"\u0000"`, `"\u001b]52;c;eA==\u0007"`,
	`""`,
	`0`, `-1`, `1`, `9223372036854775807`, `18446744073709551615`, `1e400`, `0.5`, `true`, `null`,
	`{}`, `[]`, `{"x":`,
}

// Wholes are given to a key in place of all its fields.
var Wholes = []string{"", " ", "{", "null", "[]", "\xff", "\x00", "alive", "own", "7", "-1", `"x"`}

// Fields are what a kind of key holds, each with a value that is fine.
type Fields map[string]string

// Of returns the fields of a value; nil: it is no JSON object.
func Of(value []byte) Fields {
	var raw map[string]json.RawMessage
	if json.Unmarshal(value, &raw) != nil {
		return nil
	}
	f := Fields{}
	for name, v := range raw {
		f[name] = string(v)
	}
	return f
}

// Names are the names of the fields, in order.
func (f Fields) Names() []string { return slices.Sorted(maps.Keys(f)) }

// With returns the whole with a value in one of its fields.
func (f Fields) With(name, value string) []byte {
	var b bytes.Buffer
	for i, k := range f.Names() {
		v := f[k]
		if k == name {
			v = value
		}
		fmt.Fprintf(&b, "%s%q:%s", map[bool]string{true: "{", false: ","}[i == 0], k, v)
	}
	b.WriteString("}")
	return b.Bytes()
}

// Each calls f with every value of a kind: each of Values and wide in each field, those of a
// process in its fields, and what is no JSON object at all.
func (f Fields) Each(wide string, call func(what string, value []byte)) {
	for _, name := range f.Names() {
		for _, aim := range append(slices.Clone(Values), wide) {
			what := aim
			if len(what) > 30 {
				what = "wide"
			}
			call(name+"="+what, f.With(name, aim))
		}
	}
	for _, p := range []string{"by", "process"} {
		if _, ok := f[p]; ok {
			Process.Each(wide, func(what string, value []byte) {
				call(p+"."+what, f.With(p, string(value)))
			})
		}
	}
	for _, value := range append(slices.Clone(Wholes), strings.Repeat("{", 100_000)) {
		call(fmt.Sprintf("%.10q", value), []byte(value))
	}
}

const someProcess = `{"instance":"i","host":"h","boot":"b","pidns":"n","pid":7,"start":8}`

// The kinds of keys. A record's text is for people, and its numbers are the member's own affair.
var (
	Ack = Fields{"n": "7", "sid": `"0d8f3a2e-0000-4000-8000-000000000000"`,
		"by": someProcess, "clear": "true", "ttl": "10000000000", "stopped": "false", "keep": "0",
		"failing": "true"}
	Member = Fields{"status": `"alive"`, "host_address": `"h:1"`, "capacity": "1",
		"idle": "false", "zone": `"z"`, "version": `"v"`, "process": someProcess}
	Assignment = Fields{"s": `"own"`, "to": `"0d8f3a2e-0000-4000-8000-000000000000"`, "why": `"r"`,
		"now": "true"}
	LeaderState = Fields{"by": `"0d8f3a2e-0000-4000-8000-000000000000"`,
		"at": `"2000-01-01T00:00:00Z"`, "life": "1",
		"absent": `{"m":{"ack":1,"sid":"x","for":1}}`}
	// of an absence, in LeaderState
	Waited  = Fields{"ack": "1", "sid": `"x"`, "for": "1", "of": "1", "sentinel": "1"}
	Summary = Fields{"sid": `"0d8f3a2e-0000-4000-8000-000000000000"`, "n": "7",
		"at": `"2000-01-01T00:00:00Z"`, "upto": "7", "clear_at": `"2000-01-01T00:00:00Z"`,
		"counts": `{"running":1}`, "items": `[]`}
	// of an item, in Summary
	Report = Fields{"id": `"x"`, "s": `"crash-looping"`, "since": `"2000-01-01T00:00:00Z"`,
		"token": "7", "restarts": "7", "exit": `"e"`, "exit_at": `"2000-01-01T00:00:00Z"`,
		"next": `"2000-01-01T00:00:00Z"`, "over": "true", "again": "7"}
	Record = Fields{"at": "1", "by": `"n1"`, "epoch": "7", "more": "0", // of the event log
		"e": `[{"do":"granted","i":["x"],"to":"n1"}]`}
	Event = Fields{"do": `"lost"`, "i": `["x"]`, "from": `"n1"`, "to": `"n2"`, "why": `"r"`,
		"by": `"x@y"`, "n": "3", "wait": "1000"} // of a record
	Process = Fields{"instance": `"i"`, "host": `"h"`, "boot": `"b"`, "pidns": `"n"`, "pid": "7",
		"start": "8", "timens": `"t"`}
)
