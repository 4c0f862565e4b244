package history_test

import (
	"testing"
	"time"

	"github.com/coordd/coordd/internal/history"
)

func TestAClockThatWasSetBackIsFound(t *testing.T) {
	line, by := history.SetBack(read(t, `
		0 boot a#1
		0 boot b#1
		5 start a#1 w1 5
		2 stop a#1 w1 5
		3 alive b#1
		3 start a#1 w2 5`))
	if by != 2*time.Second || line.Item != "w2" {
		t.Errorf("set back by %v at %s, want 2s", by, line)
	}
}

func TestWhatWasOverBeforeIsNoClockThatWasSetBack(t *testing.T) {
	line, by := history.SetBack(read(t, `
		0 boot a#1
		1 start a#1 w1 5
		1 lead a#1 7
		9 alive a#1
		4 unlead a#1 7
		5 stop a#1 w1 5
		9 lost a#1 2s
		9 end a#1`))
	if by != 0 {
		t.Errorf("set back by %v at %s", by, line)
	}
}
