package asynclog

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// enabledFor is how long a handler's word on a level counts: the longest time that a change of the
// level takes.
const enabledFor = time.Second

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
func (q *Queue) Handler(h slog.Handler) slog.Handler {
	return &handler{queue: q, inner: func() slog.Handler { return h }, levels: &sync.Map{}}
}

type handler struct {
	queue *Queue
	// inner is asked for by the queue's goroutine only: With may block as well.
	inner  func() slog.Handler
	levels *sync.Map // slog.Level -> levelState
	bytes  int       // of the attributes that it adds
}

type levelState struct {
	enabled bool
	asked   time.Time
}

// Enabled answers from what the handler said last of that level, at most a second ago. A level that
// nothing is known of counts as enabled: the queue's goroutine asks before it writes.
func (h *handler) Enabled(_ context.Context, level slog.Level) bool {
	v, known := h.levels.Load(level)
	if !known {
		return true
	}
	last := v.(levelState)
	if last.enabled || time.Since(last.asked).Abs() < enabledFor {
		return last.enabled
	}
	// One record goes to ask; if it is dropped, or waits, others do not.
	return h.levels.CompareAndSwap(level, last, levelState{false, time.Now()})
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	h.queue.add(&record{h, ctx, r.Clone()})
	return nil
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if len(attrs) == 0 {
		return h
	}
	n := 0
	for _, a := range attrs {
		n += sizeOf(a)
	}
	return h.derive(n, func(inner slog.Handler) slog.Handler { return inner.WithAttrs(attrs) })
}

func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return h.derive(len(name), func(inner slog.Handler) slog.Handler {
		return inner.WithGroup(name)
	})
}

func (h *handler) derive(n int, f func(slog.Handler) slog.Handler) slog.Handler {
	// only the queue's goroutine asks; a handler that fails here is asked again
	var made slog.Handler
	return &handler{queue: h.queue, levels: h.levels, bytes: h.bytes + n,
		inner: func() slog.Handler {
			if made == nil {
				made = f(h.inner())
			}
			return made
		}}
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

// levelDisabled tells whether the handler said last that it does not want records of this level.
func (r *record) levelDisabled() bool {
	v, known := r.levels.Load(r.rec.Level)
	return known && !v.(levelState).enabled
}

func (r *record) write() {
	inner := r.inner()
	enabled := inner.Enabled(r.ctx, r.rec.Level)
	if v, known := r.levels.Load(r.rec.Level); !known || v.(levelState).enabled != enabled ||
		!enabled {
		r.levels.Store(r.rec.Level, levelState{enabled, time.Now()})
	}
	if enabled {
		_ = inner.Handle(r.ctx, r.rec)
	}
}

func (r *record) note(lost int, since time.Time) {
	note := slog.NewRecord(time.Now(), slog.LevelWarn, "log-records-dropped", 0)
	note.AddAttrs(slog.Int("count", lost), slog.Time("since", since),
		slog.String("why", "the log was not written for a while, or its handler failed"))
	if inner := r.inner(); inner.Enabled(r.ctx, slog.LevelWarn) {
		_ = inner.Handle(r.ctx, note)
	}
}
