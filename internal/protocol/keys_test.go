package protocol_test

import (
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/keys"
)

func keysOf(t testing.TB, service string) protocol.Keys {
	t.Helper()
	k, err := protocol.KeysOf(service)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestKeysAreThoseOfTheDesign(t *testing.T) {
	k := keysOf(t, "svc")
	for got, want := range map[string]string{
		k.Root():                "service/svc/",
		k.Leader():              "service/svc/leader",
		k.Members():             "service/svc/members/",
		k.Member("m1"):          "service/svc/members/m1",
		k.Workload():            "service/svc/workload/",
		k.WorkItem("w"):         "service/svc/workload/w",
		k.Assignments():         "service/svc/assignments/",
		k.AssignmentsOf("m1"):   "service/svc/assignments/m1/",
		k.Assignment("m1", "w"): "service/svc/assignments/m1/w",
		k.Acks():                "service/svc/acks/",
		k.Ack("m1"):             "service/svc/acks/m1",
		k.Control():             "service/svc/control/",
		k.Freeze():              "service/svc/control/freeze",
		k.Override():            "service/svc/control/override",
		k.Drain("m1"):           "service/svc/control/drain/m1",
		k.Pin("w"):              "service/svc/control/pins/w",
	} {
		if got != want {
			t.Errorf("key %q, want %q", got, want)
		}
	}
	if k.Service() != "svc" {
		t.Errorf("Service() = %q", k.Service())
	}
}

func TestServiceNamesAreChecked(t *testing.T) {
	for _, bad := range []string{"", "/", "/a", "a/", "a/b", "coordd/workload", "a//b", "a/../b",
		"..", ".", "a b", "a%20b", "a?b", "a\x00b", "a\nb", "a\xffb", "a#b",
		strings.Repeat("a", 257)} {
		_, err := protocol.KeysOf(bad)
		wantInvalid(t, err)
	}
	for _, good := range []string{"coordd", "größe", "a.b-c_d~e:f@g+h", "..a"} {
		if _, err := protocol.KeysOf(good); err != nil {
			t.Errorf("KeysOf(%q): %v", good, err)
		}
	}
}

func TestIDsAreCheckedAndTheMessageSaysWhatIsWrong(t *testing.T) {
	for id, says := range map[string]string{
		"":                       "is empty",
		"a/b":                    "slash",
		" a":                     "space",
		"a ":                     "space",
		"a\tb":                   "control character",
		"a\x7f":                  "control character",
		"a\xff":                  "UTF-8",
		".":                      `"."`,
		"..":                     `".."`,
		"a%20b":                  "percent escape",
		"%2e%2e":                 "percent escape",
		strings.Repeat("x", 257): "257 bytes",
	} {
		err := protocol.CheckID("item id", id)
		wantInvalid(t, err, "item id", says)
	}
	for _, id := range []string{"m1", "10.0.0.1:8080", "a b", "100%", "%41", "ünï", "a.b", "...",
		strings.Repeat("x", 256)} {
		if err := protocol.CheckID("item id", id); err != nil {
			t.Errorf("CheckID(%q): %v", id, err)
		}
	}
}

// What CheckID lets through must work as a key with every way of access: the
// single GET of a key is cleaned and checked by Consul, transactions are not.
func TestEveryCheckedIDIsTheSameKeyToReadsAndTransactions(t *testing.T) {
	bubble(t, func(t *testing.T, _ *devconsul.Server, s *protocol.Store) {
		for _, id := range []string{"m1", "10.0.0.1:8080", "a b", "100%", "%41", "ünï", "a.b",
			"...", "a+b", "a?b=c", "a#b", `a"b\c`, "a&b;c"} {
			must(t, protocol.CheckID("item id", id))
			key := s.Keys().WorkItem(id)
			must(t, keys.Put(t.Context(), s, key, []byte(id), 0))
			e, found, _, err := s.Get(t.Context(), key, store.Consistent)
			if err != nil || !found || string(e.Value) != id || e.Key != key {
				t.Errorf("Get of %q: %q found %v, error %v", key, e.Key, found, err)
			}
			if w, ok := s.Keys().ParseWorkItem(e.Key); !ok || w != id {
				t.Errorf("ParseWorkItem(%q) = %q, %v", e.Key, w, ok)
			}
		}
	})
}

func FuzzKeysParse(f *testing.F) {
	k := keysOf(f, "svc")
	for _, seed := range []string{"", "service/svc/assignments/m1/w1",
		"service/svc/assignments/m1/", "service/svc/members/m1", "service/svc/workload/a b",
		"service/svc/acks/ü", "service/svc/assignments/../w", "service/svc/workload/%2e%2e",
		"service/svc/members/\xff", "service/svc/members/", "service/svc/members/a/b",
		"service/svcx/members/a", "service/svc/members/ ", "service/svc/assignments/m",
		"service/svc/assignments//w", "service/svc/assignments/m/w/x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if m, w, ok := k.ParseAssignment(key); ok {
			if got := k.Assignment(m, w); got != key || m == "" {
				t.Errorf("%q parses as %q, %q, which is the key %q", key, m, w, got)
			}
		}
		for name, parse := range map[string]func(string) (string, bool){
			"member": k.ParseMember, "item": k.ParseWorkItem, "ack": k.ParseAck} {
			build := map[string]func(string) string{
				"member": k.Member, "item": k.WorkItem, "ack": k.Ack}[name]
			if id, ok := parse(key); ok && (build(id) != key || protocol.CheckID("id", id) != nil) {
				t.Errorf("%q parses as the %s %q", key, name, id)
			}
		}
	})
}
