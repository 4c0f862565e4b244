package main

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
)

func TestManyDrainedMembersAreShownByWhoOrderedIt(t *testing.T) {
	at := time.Date(2020, 1, 2, 10, 0, 0, 0, time.Local)
	var s actors.Status
	for i := range 7 {
		id, by := fmt.Sprintf("n%d", i+1), "ann@desk"
		if i%3 == 1 {
			by = "bob@home"
		}
		s.Drained = append(s.Drained, id)
		s.Orders = append(s.Orders, actors.StatusOrder{Kind: "drain", Member: id, By: by,
			At: at.Add(-time.Duration(i) * time.Minute)})
	}
	s.Drained = append(s.Drained, "n8")
	s.Orders = append(s.Orders, actors.StatusOrder{Kind: "drain", Member: "n8"})
	want := []string{
		"drained: n1, n3, n4, n6, n7; since 2020-01-02 09:54:00; by ann@desk",
		"drained: n2, n5; since 2020-01-02 09:56:00; by bob@home",
		"drained: n8",
	}
	if got := ordersInWords(s); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
