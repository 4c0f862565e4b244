package protocol_test

import (
	"maps"
	"reflect"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

func TestALeaderStateIsReadAsItWasWrittenAndOneThatCannotBeIsRefused(t *testing.T) {
	o := protocol.LeaderState{By: "s", At: time.Unix(1, 0).UTC(), Brake: "60 of 60",
		Life:   protocol.NoteLife(24*time.Hour, time.Minute),
		Absent: map[string]protocol.Waited{"m1": {Ack: 7, Session: "s1", For: time.Second}}}
	if got, err := protocol.ParseLeaderState(o.Encode()); err != nil || got.By != o.By ||
		!got.At.Equal(o.At) || got.Brake != o.Brake ||
		got.Life != o.Life || !maps.Equal(got.Absent, o.Absent) {
		t.Errorf("%+v, %v", got, err)
	}
	k := keysOf(t, "svc")
	if _, err := k.ReadLeaderState(store.Entry{}); err != nil {
		t.Errorf("of none: %v", err)
	}
	for _, bad := range []string{"", "n1", `{"absent":7}`,
		`{"absent":{"m1":{"ack":0,"sid":"s","for":1}}}`, `{"absent":{"m1":{"ack":1,"for":1}}}`,
		`{"absent":{"m1":{"ack":1,"sid":"s","for":-1}}}`,
		`{"absent":{"m1":{"ack":1,"sid":"s","for":9223372036854775808}}}`, `{"at":"yesterday"}`,
		`{"life":-1}`, `{"life":518520000000001}`,
		`{"brake":`, `{"brake":"a\u001b]52;c;x"}`} {
		got, err := k.ReadLeaderState(store.Entry{Value: []byte(bad), CreateIndex: 1})
		if wantInvalid(t, err); !reflect.DeepEqual(got, protocol.LeaderState{}) {
			t.Errorf("%q is read as %+v", bad, got)
		}
	}
}
