package election

import "testing"

// A reader that comes when all is over is told at each message what it has missed before it, and
// nowhere else.
func TestWhatAReaderHasMissedIsToldWhereItIsMissing(t *testing.T) {
	for _, read := range []int{0, 5, 20} {
		o := newOutbox()
		var was int
		next := func(s Status) {
			t.Helper()
			if missed := int(s.Token) - was - 1; s.Missed != missed {
				t.Errorf("between %d and %d there are %d, and %d are said to be missing", was,
					s.Token, missed, s.Missed)
			}
			was = int(s.Token)
		}
		for i := range 80 {
			o.put(Status{What: RoleChanged, Token: uint64(i + 1)})
			if i < read {
				next(<-o.out)
			}
		}
		o.put(Status{What: Over, Token: 81})
		o.close()
		for s := range o.out {
			next(s)
		}
		if was != 81 {
			t.Errorf("the last message is %d", was)
		}
	}
}
