package operator_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/hashicorp/consul/api"
)

var update = flag.Bool("update", false, "write what is said in testdata anew")

// Each file of testdata holds scenarios of one subject, separated by empty lines. What the first
// block does comes before each of them.
//
//	== NAME
//	# why that has to be said
//	what is in Consul, by the lines of desk.do
//	---- a look, as in desk.look, or "do" and one more line for desk.do
//	what is said
//
// The clock begins at 2000-01-01T00:00:00Z. There may be several looks, each behind a line of
// dashes of its own. With -update what is said is written anew, and the difference is to be read
// before it is committed.
func TestScenarios(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) < 5 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		head, blocks, _ := strings.Cut(strings.TrimSpace(string(text)), "\n\n")
		again := bytes.NewBufferString(head + "\n")
		for block := range strings.SplitSeq(blocks, "\n\n") {
			title, _, _ := strings.Cut(block, "\n")
			now := block + "\n" // of those that -run leaves out
			name := strings.TrimSuffix(filepath.Base(path), ".txt")
			t.Run(name+"/"+strings.TrimPrefix(title, "== "), func(t *testing.T) {
				operate(t, func(t *testing.T, d *desk) { now = d.play(head, block) })
			})
			again.WriteString("\n" + now)
		}
		if *update && !t.Failed() {
			if err := os.WriteFile(path, again.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Run("each word is said", wordsAreAllSaid)
}

// play compares what is said in one scenario with its text, and returns the text with what is said
// now.
func (d *desk) play(head, block string) string {
	words.last = ""
	parts := strings.Split(block, "\n---- ")
	for line := range strings.Lines(head + "\n" + parts[0]) {
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "==") {
			d.do(strings.TrimSpace(line))
		}
	}
	status, err := d.op.Status(d.t.Context())
	d.must(err)
	n := 0
	for _, count := range status.Work.States {
		n += count
	}
	if n != status.Work.Total {
		d.t.Errorf("%d items, of which these have a state: %v", status.Work.Total,
			status.Work.States)
	}
	again := parts[0] + "\n"
	for _, part := range parts[1:] {
		look, want, _ := strings.Cut(part, "\n")
		got := d.look(strings.Fields(look))
		if want = strings.TrimSpace(want); !*update && got != want {
			d.t.Errorf("%s\n%s\nwant (go test ./actors/operator -update writes it anew)\n%s", look,
				got, want)
		}
		if again += "---- " + look + "\n"; got != "" {
			again += got + "\n"
		}
	}
	return again
}

// do does one line: VERB KEY VALUE, the value up to the end of the line. Keys are below the
// service's.
func (d *desk) do(line string) {
	d.t.Helper()
	verb, rest, _ := strings.Cut(line, " ")
	key, value, _ := strings.Cut(rest, " ")
	agent := d.consul.Client().Agent()
	switch verb {
	case "put": // {300} in the key stands for 000 to 299
		before, after, many := strings.Cut(key, "{300}")
		for n := 0; many && n < 300; n++ {
			d.put(fmt.Sprintf("%s%03d%s", before, n, after), value)
		}
		if !many {
			d.put(key, value)
		}
	case "lock": // by a session of its own
		d.lock(key, value)
	case "delete":
		_, err := d.kv.Delete("service/demo/"+key, nil)
		d.must(err)
	case "item": // ID and weight
		var w operator.WorkInput
		_, err := fmt.Sscan(rest, &w.ID, &w.Weight)
		d.must(errors.Join(err, d.op.AddWork(d.t.Context(), w)))
	case "tells": // a member, and what it says of its items in the name of its session
		s := protocol.WorkSummary{Session: d.entry("members/" + key).Session, Seq: 1,
			Upto: d.consul.Dump().Index}
		d.must(json.Unmarshal([]byte(value), &s))
		d.put("states/"+key, string(s.Encode()))
	case "acks": // a member, with its session and a lease of 10 s
		d.put("acks/"+key, strings.Replace(value, "{", `{"sid":"`+d.entry("members/"+key).Session+
			`","ttl":10000000000,`, 1))
	case "notes": // the leader, now; an absence is that of the ack that is there
		s := protocol.LeaderState{By: d.entry("leader").Session, At: time.Now().UTC()}
		d.must(json.Unmarshal([]byte(rest), &s))
		for member, w := range s.Absent {
			w.Ack, w.Session = d.entry("acks/"+member).ModifyIndex, "x"
			s.Absent[member] = w
		}
		d.put("leader_state", string(s.Encode()))
	case "registers", "registers-elsewhere": // an instance, with a check of 3 s
		if verb != "registers" {
			agent = d.consul.AddAgent("other").Client().Agent()
		}
		d.must(agent.ServiceRegister(&api.AgentServiceRegistration{ID: key, Name: "demo",
			Check: &api.AgentServiceCheck{CheckID: "service:" + key, TTL: "3s",
				Status: api.HealthPassing}}))
	case "reports", "warns": // to the check of an instance; NOW stands for the time
		status := map[string]string{"reports": api.HealthPassing, "warns": api.HealthWarning}[verb]
		value = strings.Replace(value, "NOW", time.Now().UTC().Format(time.RFC3339), 1)
		d.must(agent.UpdateTTL("service:"+key, value, status))
	case "sleep":
		pause, err := time.ParseDuration(key)
		d.must(err)
		time.Sleep(pause)
	case "freeze":
		d.must(d.op.As(key).Freeze(d.t.Context()))
	case "drain":
		d.must(d.op.As(value).Drain(d.t.Context(), key))
	case "":
	default:
		d.t.Fatalf("what is %q?", line)
	}
}

func (d *desk) entry(key string) *api.KVPair {
	e, _, err := d.kv.Get("service/demo/"+key, nil)
	if d.must(err); e == nil {
		return &api.KVPair{}
	}
	return e
}

// look says what an operator is told, as JSON: items and problems one a line.
func (d *desk) look(args []string) string {
	ctx := d.t.Context()
	status, holders, items, err := d.op.Look(ctx)
	d.must(err)
	if status.Leader != nil {
		status.Leader.Epoch = 7
	}
	var said []any
	switch args[0] {
	case "do":
		d.do(strings.Join(args[1:], " "))
		return ""
	case "word": // of an item
		e, err := d.op.Explain(ctx, args[1])
		d.must(err)
		words.see(e)
		for _, i := range items {
			if i.ID == e.ID && i.Why != e.Why {
				d.t.Errorf("%s is explained by %q, and looks like %q", i.ID, e.Why, i.Why)
			}
		}
		return strings.TrimRight(fmt.Sprintf("%s %s: %s; %s", e.State, e.Cause, e.Why, e.Next), " ;")
	case "status":
		said = append(said, status)
	case "members":
		for _, m := range slices.Concat(status.Members, status.Absent) {
			said = append(said, m)
		}
	case "work":
		said = append(said, status.Work)
	case "unreadable":
		said = append(said, status.Unreadable)
	case "holders":
		said = append(said, holders)
	case "items":
		for _, i := range items {
			said = append(said, i)
		}
	case "problems": // without the weights, as the command says them
		status, err = d.op.Status(ctx)
		d.must(err)
		return status.Problem()
	case "explain": // an item
		var e operator.Explanation
		if e, err = d.op.Explain(ctx, args[1]); err == nil {
			said = append(said, e)
		}
	case "plan": // each argument is add N, drain MEMBER or without MEMBER
		var what operator.WhatIf
		for a := range slices.Chunk(args[1:], 2) {
			switch a[0] {
			case "add":
				_, err = fmt.Sscan(a[1], &what.Add)
				d.must(err)
			case "drain":
				what.Drain = append(what.Drain, a[1])
			case "without":
				what.Without = append(what.Without, a[1])
			}
		}
		var p operator.Plan
		if p, err = d.op.Plan(ctx, what); err == nil {
			said = append(said, p)
		}
	case "unused":
		var unused bool
		unused, err = d.op.Unused(ctx)
		said = append(said, unused)
	default:
		d.t.Fatalf("what is %q?", args)
	}
	if err != nil {
		return "error: " + err.Error()
	}
	var lines []string
	for _, x := range said {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		d.must(e.Encode(x))
		lines = append(lines, strings.TrimSpace(b.String()))
	}
	return strings.Join(lines, "\n")
}
