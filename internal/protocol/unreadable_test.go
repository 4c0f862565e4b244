package protocol_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// A reader comes to the same keys with every view.
func TestAStrangeKeyIsLoggedOnceHoweverManyThereAre(t *testing.T) {
	const most = 10_000
	for _, c := range []struct{ keys, lines int }{{3, 3}, {most, most}, {most + 1, most + 1},
		{most + 500, most + 1}} {
		t.Run(fmt.Sprint(c.keys), func(t *testing.T) {
			var log bytes.Buffer
			odd := protocol.UnreadableKeys{Log: slog.New(slog.NewTextHandler(&log, nil))}
			for range 3 {
				for i := range c.keys {
					odd.Skip(store.Entry{Key: fmt.Sprintf("service/demo/workload/%d/x", i)}, "no id")
				}
			}
			if n := bytes.Count(log.Bytes(), []byte("\n")); n != c.lines {
				t.Errorf("%d lines about %d keys, want %d", n, c.keys, c.lines)
			}
			more := bytes.Count(log.Bytes(), []byte("and start the process again"))
			if want := min(1, max(0, c.keys-most)); more != want {
				t.Errorf("%d lines say that there are more, want %d", more, want)
			}
		})
	}
}
