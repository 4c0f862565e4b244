package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
)

var anEscape = regexp.MustCompile("\x1b\\[[0-9]*m")

// Colours are put where something is wrong or under way, and change nothing else: also behind an id
// whose letters take several bytes.
func TestColoursChangeNoLetter(t *testing.T) {
	status := actors.Status{Service: "demo", Leader: &actors.StatusLeader{ID: "n1", Epoch: 3},
		Problems: []actors.Problem{{Kind: "crash-looping", Text: "1 item loops: ä"}},
		Drained:  []string{"münchen"},
		Orders:   []actors.StatusOrder{{Kind: "freeze"}, {Kind: "drain", Member: "münchen"}},
		Members: []actors.StatusMember{
			{ID: "münchen", Status: "alive", Drained: true, Items: 12,
				States: map[actors.ItemState]int{actors.ItemRunning: 10, actors.ItemStopping: 2}},
			{ID: "n1", Status: "alive", Items: 3, States: map[actors.ItemState]int{
				actors.ItemRunning: 2, actors.ItemLooping: 1}},
		},
		Absent: []actors.StatusMember{{ID: "n3", Status: actors.StatusGone, Items: 4,
			States: map[actors.ItemState]int{actors.ItemWaiting: 4}}},
	}
	items := []actors.ItemStatus{
		{ID: "größe", State: actors.ItemLooping, Member: "n1", Why: "free of charge"},
		{ID: "free", State: actors.ItemRunning, Member: "free"},
	}
	for name, c := range map[string]struct {
		print func(*bytes.Buffer) error
		want  []string
	}{
		"status": {func(b *bytes.Buffer) error { return printStatus(b, status) }, []string{
			red + bold + "wrong    1 item loops: ä" + reset + "\n",
			yellow + "orders   drained: münchen" + reset + "\n",
			"münchen  " + yellow + "alive, drained" + reset + "  12 ",
			yellow + "2" + reset, red + "1" + reset, "  " + red + "gone" + reset + "  ",
			"  " + yellow + "4" + reset + "  ",
		}},
		"members": {func(b *bytes.Buffer) error { return printMembers(b, status, true) },
			[]string{bold + "MEMBER ", yellow + "alive, drained" + reset}},
		"items": {func(b *bytes.Buffer) error { return printItems(b, items, time.Now()) },
			[]string{"größe  " + red + "crash-looping" + reset + "  n1", "\nfree   running  "}},
		"explain": {func(b *bytes.Buffer) error {
			return printExplanation(b, items[0].Explained(actors.EventLog{}), time.Now())
		}, []string{"state   " + red + "crash-looping" + reset + ": free"}},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := c.print(&b); err != nil {
				t.Fatal(err)
			}
			got := coloured(b.String())
			if bare := anEscape.ReplaceAllString(got, ""); bare != b.String() {
				t.Errorf("without its colours it is\n%s\nand not\n%s", bare, b.String())
			}
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q is not in\n%q", want, got)
				}
			}
		})
	}
}
