package asynclog

import (
	"context"
	"log/slog"
	"time"
)

// Wrap returns a logger that never waits for log's handler. What goes through a logger that was
// wrapped before stays in that one's queue, and so in order. nil means slog.Default().
func Wrap(log *slog.Logger) *slog.Logger {
	if log == nil {
		log = slog.Default()
	}
	if _, wrapped := log.Handler().(*handler); wrapped {
		return log
	}
	return slog.New(NewQueue().Handler(log.Handler()))
}

// Flush waits until what was logged through a wrapped logger is written, for limit at the most, and
// reports whether it is.
func Flush(log *slog.Logger, limit time.Duration) bool {
	if h, ok := log.Handler().(*handler); ok {
		return h.queue.Flush(limit)
	}
	return true
}

// Dropped is how many records and lines were dropped so far on the way of a wrapped logger. 0 for
// one that was not wrapped.
func Dropped(log *slog.Logger) int {
	if h, ok := log.Handler().(*handler); ok {
		return h.queue.Dropped()
	}
	return 0
}

// Handler returns a handler whose records go to h by way of the queue.
func (q *Queue) Handler(h slog.Handler) slog.Handler { return &handler{q, h, 0} }

type handler struct {
	queue *Queue
	inner slog.Handler
	bytes int // of the attributes that it adds
}

func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.inner.Enabled(ctx, level)
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	h.queue.addRecord(&record{h, ctx, r.Clone()})
	return nil
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	n := h.bytes
	for _, a := range attrs {
		n += sizeOf(a)
	}
	return &handler{h.queue, h.inner.WithAttrs(attrs), n}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.queue, h.inner.WithGroup(name), h.bytes + len(name)}
}

// record is one record on its way.
type record struct {
	*handler
	ctx context.Context
	rec slog.Record
}

func (r *record) at() time.Time { return r.rec.Time }

func (r *record) size() int {
	n := 200 + len(r.rec.Message) + r.bytes
	r.rec.Attrs(func(a slog.Attr) bool {
		n += sizeOf(a)
		return true
	})
	return n
}

// sizeOf asks nobody: neither an error for its text nor a LogValuer for its value.
func sizeOf(a slog.Attr) int {
	n := len(a.Key) + 16
	switch a.Value.Kind() {
	case slog.KindString:
		n += len(a.Value.String())
	case slog.KindGroup:
		for _, more := range a.Value.Group() {
			n += sizeOf(more)
		}
	case slog.KindAny:
		switch v := a.Value.Any().(type) {
		case []byte:
			n += len(v)
		case []string:
			for _, text := range v {
				n += len(text) + 16
			}
		}
	}
	return n
}

func (r *record) write() { _ = r.inner.Handle(r.ctx, r.rec) }

func (r *record) note(lost int, since time.Time) {
	note := slog.NewRecord(time.Now(), slog.LevelWarn, "log-records-dropped", 0)
	note.AddAttrs(slog.Int("count", lost), slog.Time("since", since),
		slog.String("why", "the log was not written for a while, or its handler failed"))
	if r.inner.Enabled(r.ctx, slog.LevelWarn) {
		_ = r.inner.Handle(r.ctx, note)
	}
}
