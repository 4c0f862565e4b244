package history

import (
	"fmt"
	"maps"
	"slices"
)

// configWrite is one write of one config value. No two writes have the same value.
type configWrite struct {
	key, value string
	proc       string // that asked for it
	askedAt    int
	order      int  // among the writes of its key
	looked     bool // its process said what it saw in the moment in which it asked
	absent     bool // that was no value

	told, logged, refused int // at + 1; 0: not
	applied               int // at + 1 of the first time that Consul took it
	times                 int
}

// configKey is what happened to one config key.
type configKey struct {
	now     string
	index   uint64 // of the last write; 0: there was none
	changes []int  // where Consul took a write
	writes  []*configWrite
	own     map[string]uint64 // process -> index of its newest acknowledged write
	ownAt   map[string]int
	sawAt   map[string]int  // process -> where it looked last
	absent  map[string]bool // process -> it saw no value there
}

// configs judges config writes: I4 for what was acknowledged to a caller.
type configs struct {
	keys   map[string]*configKey
	writes map[string]*configWrite // key and value
	asked  int
}

func (c *configs) key(name string) *configKey {
	k := c.keys[name]
	if k == nil {
		k = &configKey{own: map[string]uint64{}, ownAt: map[string]int{},
			sawAt: map[string]int{}, absent: map[string]bool{}}
		c.keys[name] = k
	}
	return k
}

func (c *configs) write(e Event) *configWrite { return c.writes[e.Key+"\x00"+e.Value] }

// ask notes a write that a caller asks for.
func (c *checker) ask(i int, e Event, _ *process) {
	if w := c.configs.write(e); w != nil {
		c.breach("I4", fmt.Sprintf("%s is written with the value %q a second time: a history "+
			"names each write by its value", e.Key, e.Value), w.askedAt, i)
		return
	}
	k := c.configs.key(e.Key)
	c.configs.asked++
	w := &configWrite{key: e.Key, value: e.Value, proc: e.Proc, askedAt: i, order: len(k.writes)}
	if at, ok := k.sawAt[e.Proc]; ok && c.events[at].At.Equal(e.At) {
		w.looked, w.absent = true, k.absent[e.Proc]
	}
	k.writes = append(k.writes, w)
	c.configs.writes[e.Key+"\x00"+e.Value] = w
}

// told checks an acknowledgement.
func (c *checker) told(i int, e Event, _ *process) {
	w := c.configs.write(e)
	if w == nil {
		return // asked for before Consul lost writes
	}
	w.told = i + 1
	switch {
	case !c.hasWrite: // nothing is known of what Consul took
	case w.applied == 0:
		c.breach("I4", fmt.Sprintf(
			"%s is told that Consul has %q as the value of %s, and Consul never took it",
			e.Proc, e.Value, e.Key), w.askedAt, i)
	case w.refused != 0:
		c.breach("I4", fmt.Sprintf("the write of %q to %s is acknowledged and refused", e.Value,
			e.Key), w.askedAt, i)
	default:
		k := c.configs.key(e.Key)
		if index := c.events[w.applied-1].Index; index > k.own[e.Proc] {
			k.own[e.Proc], k.ownAt[e.Proc] = index, i
		}
	}
}

func (c *checker) logged(i int, e Event, _ *process) {
	if w := c.configs.write(e); w != nil && w.logged == 0 {
		w.logged = i + 1
	}
}

func (c *checker) refused(i int, e Event, _ *process) {
	w := c.configs.write(e)
	if w == nil || w.refused != 0 {
		return
	}
	w.refused = i + 1
	if w.applied != 0 {
		c.breach("I4", fmt.Sprintf("the write of %q to %s is refused, and Consul had taken it",
			e.Value, e.Key), w.askedAt, i)
	}
}

// saw checks that a process reads its own writes.
func (c *checker) saw(i int, e Event, _ *process) {
	k := c.configs.key(e.Key)
	k.sawAt[e.Proc], k.absent[e.Proc] = i, e.Index == 0
	if own := k.own[e.Proc]; e.Index < own && (e.Index != 0 || !k.deletedSince(c, own)) {
		c.breach("I4", fmt.Sprintf(
			"%s reads %s at index %d, after its own write at %d was acknowledged", e.Proc,
			e.Key, e.Index, own), k.ownAt[e.Proc], i)
	}
}

func (k *configKey) deletedSince(c *checker, index uint64) bool {
	return slices.ContainsFunc(k.changes, func(i int) bool {
		return c.events[i].Verb == Del && c.events[i].Index > index
	})
}

// configWritten handles a write of a config value that Consul accepted.
func (c *checker) configWritten(i int, e Event) {
	k := c.configs.key(e.Key)
	deleted := len(k.changes) > 0 && c.events[k.changes[len(k.changes)-1]].Verb == Del
	k.now, k.index = e.Value, e.Index
	defer func() { k.changes = append(k.changes, i) }()
	if e.Verb == Del {
		return
	}
	w := c.configs.write(e)
	if w == nil {
		return // another program's, or asked for before Consul lost writes
	}
	w.times++
	switch {
	case w.times > 1:
		c.breach("I4", fmt.Sprintf("Consul takes the write of %q to %s a second time", e.Value,
			e.Key), w.applied-1, i)
		return
	case w.refused != 0:
		c.breach("I4", fmt.Sprintf("the write of %q to %s is applied after it was refused", e.Value,
			e.Key), w.refused-1, i)
	}
	w.applied = i + 1
	member := Event{Proc: w.proc}.Member()
	for _, later := range k.writes[w.order+1:] {
		if later.proc == w.proc && later.applied != 0 {
			c.breach("I4", fmt.Sprintf(
				"the write of %q to %s is applied after %q, which its process asked for later",
				w.value, w.key, later.value), w.askedAt, i)
			break
		}
	}
	if w.logged == 0 {
		return
	}
	absent := w.absent
	if !w.looked { // all that is known is what it saw later
		absent = k.absent[w.proc] && k.sawAt[w.proc] >= w.logged
	}
	if deleted && absent && !c.ownSince(k, e, w) {
		// its store saw no value, and there is none: others have deleted what came meanwhile
		return
	}
	if c.forgiven(c.events[w.logged-1].At) {
		return // a restored Consul gives the index that the write is based on once more
	}
	// The caller has gone. From then on the write must not replace what others have written.
	// Changes before an earlier write of the same store do not count: that earlier write has
	// replaced them, and is judged for it.
	for _, at := range slices.Backward(k.changes) {
		if at < w.logged || c.ofSameStore(c.events[at], e, w) {
			break
		}
		if c.events[at].Member() == member {
			continue
		}
		c.breach("I4", fmt.Sprintf(
			"the write of %q to %s had to wait, and replaces what came meanwhile without a word",
			w.value, w.key), w.logged-1, i)
		break
	}
}

// ownSince tells whether the store that has made write w by event e has written the key since w was
// asked for: w is based on that write, and not on what the store saw.
func (c *checker) ownSince(k *configKey, e Event, w *configWrite) bool {
	return slices.ContainsFunc(k.changes, func(at int) bool {
		return at > w.askedAt && c.ofSameStore(c.events[at], e, w)
	})
}

// ofSameStore tells whether an earlier change of the key is a write of the store that has made
// write w by event e: its process asked for both, or sent both. A store makes its writes in the
// order in which they were taken in, so w is based on the earlier one.
func (c *checker) ofSameStore(earlier, e Event, w *configWrite) bool {
	before := c.configs.write(earlier)
	if earlier.Verb == Del || before == nil {
		return false
	}
	return before.proc == w.proc ||
		earlier.Proc == e.Proc && e.Member() == Event{Proc: w.proc}.Member()
}

// resetConfigs forgets all writes, because Consul has lost some: it judges none that was asked for
// before.
func (c *checker) resetConfigs() {
	c.configs.keys, c.configs.writes = map[string]*configKey{}, map[string]*configWrite{}
}

// finishConfigs looks for writes that were lost.
func (c *checker) finishConfigs() {
	if c.configs.asked > 0 && !c.hasWrite {
		c.report.Unjudged = append(c.report.Unjudged,
			"I4 of config values: no line tells of a write that Consul took")
		return
	}
	for _, name := range slices.Sorted(maps.Keys(c.configs.keys)) {
		for _, w := range c.configs.keys[name].writes {
			if c.closing && w.logged != 0 && w.applied == 0 && w.refused == 0 {
				c.breach("I4",
					fmt.Sprintf("the write of %q to %s was in the log, and is neither applied "+
						"nor reported as refused",
						w.value, w.key), w.askedAt, w.logged-1)
			}
		}
	}
}
