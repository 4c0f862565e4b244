package history_test

import (
	"testing"

	"github.com/coordd/coordd/internal/history"
)

// A killed coordd says nothing more. Its commands do, and are held to it.
func TestCommandsThatOutliveTheirCoorddAreJudgedByTheirOwnWord(t *testing.T) {
	rejected(t, map[string]broken{
		"a step beside the successor": {"I1", "both work on w1 for 1s", `
			0 boot a#1
			0 boot b#1
			1 start a#1 w1 5
			2 dead a#1
			4 start b#1 w1 6
			5 step a#1 w1 5
			9 stop b#1 w1 6`},
		"a stop beside the successor": {"I1", "both work on w1 for 1s", `
			0 boot a#1
			0 boot b#1
			1 start a#1 w1 5
			2 dead a#1
			4 start b#1 w1 6
			5 stop a#1 w1 5
			9 stop b#1 w1 6`},
		"a start beside the successor": {"I1", "both work on w1", `
			0 boot a#1
			0 boot b#1
			2 dead a#1
			4 start b#1 w1 6
			5 start a#1 w1 5
			5 step a#1 w1 5
			9 stop b#1 w1 6`},
		"a step beside the next run of its member": {"I1", "a#1 (token 5) and a#2 (token 6) both " +
			"work on w1 for 1s", `
			0 boot a#1
			1 start a#1 w1 5
			2 dead a#1
			3 boot a#2
			4 start a#2 w1 6
			5 step a#1 w1 5
			6 step a#2 w1 6
			6 end a#1`},
		"work until the coordd was killed": {"I1", "both work on w1 for 1s", `
			0 boot a#1
			0 boot b#1
			1 start a#1 w1 5
			4 start b#1 w1 6
			5 dead a#1
			9 stop b#1 w1 6`},
		"a step after all of it was over": {"I1", "works on w1 (token 5) after it had stopped", `
			0 boot a#1
			1 start a#1 w1 5
			2 dead a#1
			3 end a#1
			5 step a#1 w1 5`},
		"a step of a command whose coordd had stood still": {"I1", "both work on w1", `
			0 boot a#1
			0 boot b#1
			1 start a#1 w1 5
			2 freeze a#1
			3 dead a#1
			5 start b#1 w1 6
			6 step a#1 w1 5
			9 stop b#1 w1 6`},
		"a step between which the successor comes and goes": {"I1", "both work on w1 for 1s", `
			0 boot a#1
			0 boot b#1
			1 start a#1 w1 5
			2 freeze a#1
			3 dead a#1
			5 start b#1 w1 6
			6 stop b#1 w1 6
			7 step a#1 w1 5`},
		"a leadership beside its successor's": {"I2",
			"a#1 has not stopped leading until 1s later", `
			0 boot a#1
			0 boot b#1
			1 lead a#1 5
			2 lead b#1 6
			3 dead a#1`},
		"a leadership after the death": {"I2", "a#1 leads after its end", `
			0 boot a#1
			1 dead a#1
			2 lead a#1 5`},
		"an item that only a dead member's command works on": {"I3", "w1 has no owner", `
			0 set - 1 0 workload/w1 x
			0 boot a#1
			0 boot b#1
			1 start a#1 w1 5
			2 dead a#1
			3 calm - 5s -1
			9 step a#1 w1 5`},
	})
	accepted(t, map[string]string{
		"commands that end before their items move": `
			0 boot a#1
			0 boot b#1
			1 start a#1 w1 5
			1 start a#1 w2 6
			2 dead a#1
			2.5 step a#1 w1 5
			3 stop a#1 w2 6
			3 start b#1 w1 7
			3 start b#1 w2 8
			4 end a#1
			9 end b#1`,
		"one that goes on is no word for another": `
			0 boot a#1
			0 boot b#1
			1 start a#1 w1 5
			1 start a#1 w2 6
			2 dead a#1
			3 start b#1 w1 7
			9 step a#1 w2 6
			10 stop a#1 w2 6`,
		"the end of a dead one, which is noticed late": `
			0 boot a#1
			0 boot b#1
			1 start a#1 w1 5
			2 dead a#1
			3 start b#1 w1 6
			4 end a#1
			9 end b#1`,
		"a command that says late that it began": `
			0 boot a#1
			0 boot b#1
			2 dead a#1
			2.1 start a#1 w1 5
			2.2 stop a#1 w1 5
			3 start b#1 w1 6`,
		"a frozen one that is killed": `
			0 boot a#1
			0 boot b#1
			1 start a#1 w1 5
			1 lead a#1 5
			2 freeze a#1
			30 start b#1 w1 6
			30 lead b#1 6
			40 dead a#1
			40 end a#1
			50 end b#1`,
		"a leader of whose commands one goes on": `
			0 boot a#1
			0 boot b#1
			1 start a#1 w1 5
			1 lead a#1 5
			2 dead a#1
			3 lead b#1 6
			4 step a#1 w1 5
			5 stop a#1 w1 5`,
	})
}

func TestADeadMemberHasNoShare(t *testing.T) {
	r := check(t, `
		0 set - 1 0 workload/w1 x
		0 boot a#1
		0 boot b#1
		1 start a#1 w1 5
		2 dead a#1
		3 calm - 5s 0
		4 start b#1 w1 6
		9 alive b#1`)
	if len(r.Breaches) > 0 || r.Settled.Seconds() != 1 {
		t.Errorf("%v", r)
	}
}

func TestOldHistoriesAndThoseOfTheDeadAreRead(t *testing.T) {
	for _, e := range read(t, whole+"\n22 dead a#1") {
		if back, err := history.ParseEvent(e.String()); err != nil || back != e {
			t.Errorf("%v reads back as %v, %v", e, back, err)
		}
	}
}
