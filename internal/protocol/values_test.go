package protocol_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/protocol"
)

func TestTheNamesOfFieldsAreTheContract(t *testing.T) {
	for got, want := range map[string]string{
		string(protocol.Assignment{State: "own", Session: "s",
			Reason: "r"}.Encode()): `{"s":"own","to":"s","why":"r"}`,
		string(protocol.Ack{Counter: 3}.Encode()): `{"n":3}`,
		string(protocol.MemberRecord{Status: "alive", Address: "h:1",
			Process: protocol.Process{Instance: "i", Host: "h", BootID: "b", PIDNamespace: "n",
				PID:       1,
				StartTime: 2}}.Encode()): `{"status":"alive","host_address":"h:1",` +
			`"process":{"instance":"i","host":"h","boot":"b","pidns":"n","pid":1,"start":2}}`,
	} {
		if got != want {
			t.Errorf("encoded %s, want %s", got, want)
		}
	}
}

func TestBareWordsAreAccepted(t *testing.T) {
	if r, err := protocol.ParseMemberRecord([]byte(" alive\n")); err != nil ||
		r.Status != protocol.StatusAlive {
		t.Errorf("alive: %+v, %v", r, err)
	}
	if a, err := protocol.ParseAssignment([]byte("own")); err != nil ||
		a != (protocol.Assignment{State: "own"}) {
		t.Errorf("own: %+v, %v", a, err)
	}
	if a, err := protocol.ParseAck([]byte("12\n")); err != nil || a != (protocol.Ack{Counter: 12}) {
		t.Errorf("12: %+v, %v", a, err)
	}
}

func TestUnknownFieldsAreIgnoredAndBadValuesAreNamed(t *testing.T) {
	if a, err := protocol.ParseAssignment([]byte(`{"s":"own","new":{"x":[1]}}`)); err != nil ||
		a.State != "own" {
		t.Errorf("with an unknown field: %+v, %v", a, err)
	} else if got := string(a.Encode()); got != `{"s":"own","new":{"x":[1]}}` {
		t.Errorf("written anew it is %s", got)
	}
	large := `{"s":"own","new":"` + strings.Repeat("x", 2000) + `"}`
	if a, err := protocol.ParseAssignment([]byte(large)); err != nil || a.Other != "" {
		t.Errorf("with a large unknown field: %d bytes are kept, %v", len(a.Other), err)
	}
	for _, value := range []string{"", "dead", "null", "[]", `{"s":`, `{"s":1}`, "{}"} {
		_, err := protocol.ParseAssignment([]byte(value))
		wantInvalid(t, err, "assignment")
	}
}

func FuzzValuesParse(f *testing.F) {
	for _, seed := range []string{"", "alive", "own", "7", `{"s":"own"}`,
		`{"s":"rel","S":"own","To":"","x":"<\u2028","x":1.0}`,
		`{"status":"alive","process":{"pid":1}}`, `{"n":1,"by":{}}`, "{", "null",
		`{"status":"leaving","capacity":18446744073709551615,"zone":"z","version":"v"}`,
		`{"s":"rel","to":"s","why":"<balance> & \"more\""}`,
		`{"n":9,"sid":"s","clear":true,"ttl":10000000000,"by":{"instance":"i","pid":7}}`,
		`{"status":"alive","capacity":-1}`, "\xff"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		if r, err := protocol.ParseMemberRecord(value); err == nil {
			again(t, r, r.Encode(), protocol.ParseMemberRecord)
		}
		if a, err := protocol.ParseAssignment(value); err == nil {
			again(t, a, a.Encode(), protocol.ParseAssignment)
		}
		if a, err := protocol.ParseAck(value); err == nil {
			again(t, a, a.Encode(), protocol.ParseAck)
		}
	})
}

func again[T any](t *testing.T, want T, encoded []byte, parse func([]byte) (T, error)) {
	t.Helper()
	if got, err := parse(encoded); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s parses as %+v (error %v), want %+v", encoded, got, err, want)
	}
}
