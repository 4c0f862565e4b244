package asynclog

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
)

// When something that many items share goes away, each of them has a line of the log. The first
// alikeLines of one message are written within alikeWithin, and one line stands for the others.
const (
	alikeLines  = 5
	alikeWithin = 10 * time.Second
)

// namedBy are the attributes that name the item, child, member or key that a record is about.
var namedBy = []string{"item", "path", "vanished", "key"}

// kind is what records have in common that differ in the name of what they are about.
type kind struct {
	log     *handler
	message string
	of      string // the supervisor of a child
}

// alike are the records of one kind since the first of them.
type alike struct {
	written int // records that have a line of their own
	left    int // the others
	since   time.Time
	names   map[string]bool // of all
	also    []string        // the first that have no line of their own
	last    *record
}

// name is what r is about, in two parts: a supervisor's path, and the rest.
func (r *record) name() (of, name string) {
	r.rec.Attrs(func(a slog.Attr) bool {
		if a.Value.Kind() == slog.KindString && slices.Contains(namedBy, a.Key) {
			name = a.Value.String()
		}
		return name == ""
	})
	i := strings.LastIndexByte(name, '/') + 1
	return name[:i], name[i:]
}

// addRecord adds r, or has one line stand for it and others. At level debug each has its own.
func (q *Queue) addRecord(r *record) {
	of, name := r.name()
	if name == "" || r.inner.Enabled(r.ctx, slog.LevelDebug) || !q.leaveOut(r, of, name) {
		q.add(r)
	}
}

func (q *Queue) leaveOut(r *record, of, name string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	k := kind{r.handler, r.rec.Message, of}
	a := q.alike[k]
	if a == nil {
		a = &alike{since: r.at(), names: map[string]bool{}}
		if q.alike == nil {
			q.alike = map[kind]*alike{}
		}
		q.alike[k] = a
		time.AfterFunc(alikeWithin, func() { q.sumUp(k, a) })
	}
	known := a.names[name]
	a.names[name] = true
	if a.written < alikeLines {
		a.written++
		return false
	}
	if !known && len(a.also) < alikeLines {
		a.also = append(a.also, name)
	}
	a.left, a.last = a.left+1, r
	return true
}

// sumUp has the line written that stands for others, and begins anew.
func (q *Queue) sumUp(k kind, a *alike) {
	q.mu.Lock()
	mine := q.alike[k] == a // else a flush was first
	if mine {
		delete(q.alike, k)
	}
	q.mu.Unlock()
	switch {
	case !mine || a.left == 0:
	case a.left == 1:
		q.add(a.last)
	default:
		var last []any
		a.last.rec.Attrs(func(attr slog.Attr) bool { last = append(last, attr); return true })
		sum := slog.NewRecord(time.Now(), a.last.rec.Level, "more-like-it", 0)
		sum.Add("what", k.message, "lines", a.left, "names", len(a.names), "also",
			strings.Join(a.also, " "), "since", a.since, slog.Group("last", last...))
		q.add(&record{k.log, a.last.ctx, sum})
	}
}

// sumUpAll is for a flush.
func (q *Queue) sumUpAll() {
	q.mu.Lock()
	all := maps.Clone(q.alike)
	q.mu.Unlock()
	for k, a := range all {
		q.sumUp(k, a)
	}
}
