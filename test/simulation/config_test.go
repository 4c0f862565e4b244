package simulation_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/internal/history"
	"github.com/hashicorp/consul/api"
)

// The config writers of a run: none, without a log, with one.
const (
	plainConfig  = "plain"
	loggedConfig = "logged"
)

// configKeys are few, so that the writers get in one another's way.
const configKeys = 5

// configDir is where a new process of a member has its log. It goes on with what the last one of
// its host left on the disk at its end; a twin is on another host. A copy, for a process that was
// killed here goes on to hold its lock until its goroutines have ended.
func (w *world) configDir(id string, twin bool) string {
	if w.plan.settings.config != loggedConfig {
		return ""
	}
	dir := filepath.Join(w.disk, fmt.Sprintf("%s.%d", id, w.runs[id]))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		panic(err)
	}
	if last := w.logs[id]; last != "" && !twin {
		data, err := os.ReadFile(filepath.Join(last, "log"))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "log"), data, 0o600)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			panic(err)
		}
		delete(w.loose, last)
	}
	if !twin {
		w.logs[id] = dir
	}
	w.loose[dir] = true
	w.dirs = append(w.dirs, dir)
	return dir
}

// configHosts is how many hosts write config values: each write wakes each of them.
const configHosts = 6

// configures tells whether a member's host writes config values.
func (w *world) configures(id string) bool {
	return w.plan.settings.config != "" && slices.Index(w.plan.ids, id) < configHosts
}

// configured adds the config store to a member's settings.
func (w *world) configured(c *actors.Config, twin bool) {
	if !w.configures(c.ID) {
		return
	}
	c.Backend, c.ConfigLog = actors.BackendConsul, w.configDir(c.ID, twin)
}

// configure writes config values, as a host of the member does, until the process is gone.
func (p *process) configure() {
	r := rand.New(rand.NewPCG(p.w.plan.seed, hash(p.name()+" config")))
	conf := p.member.ConfigStore()
	behind := map[string]bool{} // keys that the cache may not show as this store has written them
	for n := 0; ; n++ {
		rest := time.Duration(50+r.IntN(4000)) * time.Millisecond
		if p.w.calm.Load() {
			rest *= 5
		}
		select {
		case <-time.After(rest):
		case <-p.gone:
			return
		case <-p.done:
			return
		}
		if !p.awake() || p.isLeaving() {
			return
		}
		first := r.IntN(configKeys)
		keys := []string{fmt.Sprint("c", first)}
		kind, patience := r.IntN(10), time.Duration(100+r.IntN(8000))*time.Millisecond
		// of keys of their own, for the condition says what such a write may replace, however late
		// it is: nothing
		lock := kind == 6
		if lock {
			keys = []string{fmt.Sprint("lock", first)}
		}
		if kind >= 8 {
			keys = append(keys, fmt.Sprint("c", (first+1)%configKeys))
		}
		if p.w.plan.profile != "gentle" && r.IntN(8) == 0 { // somebody who is none of us
			op := &api.KVTxnOp{Verb: api.KVSet, Key: p.w.root + "config_data/" + keys[0],
				Value: fmt.Appendf(nil, "stranger of %s %d", p.name(), n)}
			if r.IntN(3) == 0 || lock {
				op.Verb, op.Value = api.KVDelete, nil
			}
			p.w.stranger(&api.TxnOp{KV: op})
		}
		value := fmt.Sprintf("%s.%d", p.name(), n)
		say := func(verb history.Verb) {
			for _, key := range keys {
				p.note(history.Event{Verb: verb, Key: "config_data/" + key, Value: value})
			}
		}
		base, fresh := conf.Cached()
		if fresh {
			clear(behind)
		}
		for _, key := range keys {
			if e, _ := base.Get(key); base.Loaded() && !behind[key] {
				p.note(history.Event{Verb: history.Saw, Index: e.Index, Key: "config_data/" + key,
					Value: string(e.Value)})
			}
		}
		say(history.Ask)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		var err error
		switch e, known := base.Get(keys[0]); {
		case kind < 6:
			_, err = conf.Put(ctx, keys[0], []byte(value))
		case lock: // mostly another's
			_, err = conf.CompareAndSet(ctx, keys[0], []byte(value), 0)
		case kind < 8 && known:
			_, err = conf.CompareAndSet(ctx, keys[0], []byte(value), e.Index)
		default:
			var ops []configstore.Op
			for _, key := range keys {
				ops = append(ops, configstore.Set(key, []byte(value)))
			}
			_, err = conf.Txn(ctx, ops...)
		}
		cancel()
		if !p.awake() {
			return
		}
		switch {
		case err == nil:
			say(history.Told)
			for _, key := range keys {
				behind[key] = true
			}
		case errors.Is(err, configstore.ErrPending) && lock:
		case errors.Is(err, configstore.ErrPending):
			say(history.Logged)
		case errors.Is(err, configstore.ErrConflict), errors.Is(err, configstore.ErrDenied),
			errors.Is(err, configstore.ErrFull):
			say(history.Refused)
		case errors.Is(err, configstore.ErrUnreachable), errors.Is(err, configstore.ErrStopped),
			errors.Is(err, context.DeadlineExceeded):
		default:
			p.w.fail("CONFIG: %s writes %s: %v", p.name(), value, err)
		}
		ctx, cancel = context.WithTimeout(context.Background(), patience)
		e, err := conf.Get(ctx, keys[0])
		cancel()
		if !p.awake() {
			return
		}
		if err == nil || errors.Is(err, configstore.ErrNotFound) {
			p.note(history.Event{Verb: history.Saw, Index: e.Index, Key: "config_data/" + keys[0],
				Value: string(e.Value)})
		}
	}
}

// configTaken tells whether Consul has taken a value of a config key.
func (w *world) configTaken(key, value string) bool {
	return slices.ContainsFunc(w.rec.Events(), func(e history.Event) bool {
		return e.Verb == history.Set && e.Key == key && e.Value == value
	})
}

// judgeConfig wants every member to be able to write, now that all is well.
func (w *world) judgeConfig() {
	for _, id := range w.plan.ids {
		p := w.proc(id)
		if p == nil || p.isLeaving() || !w.configures(id) {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		if _, err := p.member.ConfigStore().Put(ctx, "well", []byte(p.name())); err != nil {
			w.fail("I4: %s cannot write config values when all is well: %v", p.name(), err)
		}
		cancel()
	}
}

// replayConfig sends what is left in logs whose host is gone, as an operator does, and takes in
// what was reported as refused.
func (w *world) replayConfig() {
	var loose []string
	for dir := range w.loose {
		loose = append(loose, dir)
	}
	slices.Sort(loose)
	for _, dir := range loose {
		s, err := configstore.New(configstore.Config{Service: "sim", Client: w.client, LogDir: dir,
			Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			panic(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		waiting, stop := context.WithTimeout(ctx, 2*time.Minute)
		if q, err := s.Queue().Wait(waiting, func(q configstore.Queue) bool {
			return q.Ready && q.Waiting == 0
		}); err != nil {
			w.fail("I4: the log of %s is not sent: %+v, %v", filepath.Base(dir), q, err)
		}
		stop()
		cancel()
		if err := <-ended; err != nil {
			w.fail("I4: the log of %s: %v", filepath.Base(dir), err)
		}
	}
	for _, dir := range w.dirs {
		f, err := os.Open(filepath.Join(dir, "conflicts"))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			panic(err)
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var c struct {
				Error string
				Log   struct {
					Ops []struct {
						Key   string
						Value []byte
					}
				}
			}
			if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
				w.fail("I4: a line in the file of refused writes: %v", err)
			}
			for _, op := range c.Log.Ops {
				if op.Key[0] != 'c' && op.Key[0] != 'l' {
					continue
				}
				// What may have been applied was reported as that: no refusal if it was.
				if !strings.Contains(c.Error, "may have been applied") ||
					!w.configTaken("config_data/"+op.Key, string(op.Value)) {
					w.rec.Add(history.Event{Verb: history.Refused, Proc: filepath.Base(dir),
						Key: "config_data/" + op.Key, Value: string(op.Value)})
				}
			}
		}
		f.Close()
	}
	if w.disk != "" {
		if err := os.RemoveAll(w.disk); err != nil {
			panic(err)
		}
	}
}
