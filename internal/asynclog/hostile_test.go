package asynclog_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/asynclog"
)

func TestBytesAreCountedWhereverInARecordTheyAre(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	for name, attr := range map[string]slog.Attr{
		"text": slog.String("a", big), "bytes": slog.Any("a", []byte(big)),
		"groups": slog.Group("g", slog.Group("h", slog.String("a", big))), "a list": slog.Any("a",
			[]string{big[:1<<19], big[1<<19:]}),
	} {
		v, inner := newBlocking(slog.LevelInfo)
		log := asynclog.Wrap(inner)
		open := v.shut()
		for range 20 {
			log.Info("large", attr)
		}
		open()
		if !asynclog.Flush(log, 20*time.Second) {
			t.Fatal("not flushed")
		}
		if n := strings.Count(strings.Join(v.lines(), "\n"), "msg=large"); n > 6 {
			t.Errorf("%s: %d records of 1 MiB waited", name, n)
		}
	}
}

func TestBytesAreCountedOfWhatALoggerAdds(t *testing.T) {
	v, inner := newBlocking(slog.LevelInfo)
	log := asynclog.Wrap(inner)
	open := v.shut()
	for range 20 {
		log.With("a", strings.Repeat("x", 1<<20)).WithGroup("g").Info("large")
	}
	open()
	if !asynclog.Flush(log, 20*time.Second) {
		t.Fatal("not flushed")
	}
	if n := strings.Count(strings.Join(v.lines(), "\n"), "msg=large"); n > 6 {
		t.Errorf("%d records of 1 MiB waited", n)
	}
}

// once fails the first time that it is to make a handler for more attributes.
type once struct {
	slog.Handler
	failed *bool
}

func (o once) WithAttrs(attrs []slog.Attr) slog.Handler {
	if !*o.failed {
		*o.failed = true
		panic("not now")
	}
	return o.Handler.WithAttrs(attrs)
}

func TestAHandlerThatFailsToTakeAttributesIsAskedAgain(t *testing.T) {
	var out bytes.Buffer
	log := asynclog.Wrap(slog.New(once{slog.NewTextHandler(&out, nil), new(bool)})).With("member",
		"n1")
	for range 5 {
		log.Info("hello")
		asynclog.Flush(log, 20*time.Second)
	}
	if n := strings.Count(out.String(), "msg=hello member=n1"); n != 4 {
		t.Errorf("%d of 5 records were written, want all but the first: %s", n, out.String())
	}
}
