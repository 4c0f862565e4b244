package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/coordd/coordd/supervisor"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// reloader takes what can change while a member runs from its settings file anew.
type reloader struct {
	path string
	root *cobra.Command
	// fixed are the flags that the command line or a variable gave: the file does not change them.
	fixed []string
	was   map[string]string // the settings that are in force, as text
	asked chan struct{}     // by SIGHUP
	log   *slog.Logger
	// begun is called when a reload begins, and what it returns at its end.
	begun func() (done func())
	// apply are the settings that can change. An error means that nothing has changed.
	apply map[string]func(text string) error
}

// hangups returns the reloader of a member with a settings file; nil without one. From then on
// SIGHUP asks for a reload instead of a stop.
func (a *app) hangups(cmd *cobra.Command) *reloader {
	if a.configPath == "" {
		return nil
	}
	r := &reloader{path: a.configPath, root: cmd.Root(), was: map[string]string{},
		asked: make(chan struct{}, 1)}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		r.was[f.Name] = textOf(f)
		if f.Changed && !slices.Contains(a.fromFile, f.Name) {
			r.fixed = append(r.fixed, f.Name)
		}
	})
	ask := func() {
		select {
		case r.asked <- struct{}{}:
		default: // a reload is asked for already
		}
	}
	onHangup.Store(&ask)
	return r
}

// textOf is the value of a flag as text: of a list, its values with commas between.
func textOf(f *pflag.Flag) string {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return strings.Join(list.GetSlice(), ",")
	}
	return f.Value.String()
}

// child is the actor that reloads when it is asked to.
func (r *reloader) child() supervisor.Child {
	return supervisor.Child{Name: "settings-reloader", Run: func(ctx context.Context) error {
		for {
			select {
			case <-r.asked:
				r.reload()
			case <-ctx.Done():
				return nil
			}
		}
	}}
}

// reload reads the file and applies what can change. A file with an error changes nothing.
func (r *reloader) reload() {
	defer r.begun()()
	next, err := r.read()
	if err != nil {
		r.log.Error("settings-not-reloaded", "err", err, "then",
			"going on with those that are in force")
		return
	}
	changed := []string{}
	for _, name := range slices.Sorted(maps.Keys(next)) {
		apply, can := r.apply[name]
		switch {
		case next[name] == r.was[name]:
		case !can:
			r.log.Warn("setting-needs-restart", "setting", name, "config", r.path)
		default:
			if err := apply(next[name]); err != nil {
				r.log.Error("setting-not-reloaded", "setting", name, "err", err, "then",
					"going on with "+r.was[name])
				continue
			}
			r.was[name] = next[name]
			changed = append(changed, name+"="+next[name])
		}
	}
	r.log.Info("settings-reloaded", "config", r.path, "changed", changed)
}

// read returns the settings that the file and the defaults make, but for those that are fixed. It
// reads no pipe: what came through one is not there a second time.
func (r *reloader) read() (map[string]string, error) {
	if info, err := os.Stat(r.path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file: restart coordd to change its settings",
			r.path)
	}
	found, err := readSettings(r.path, r.root)
	if err != nil {
		return nil, err
	}
	for _, name := range r.fixed {
		delete(found.lines, name)
	}
	fresh := (&app{}).runCommand()
	plainValues(fresh)
	if _, err := found.set(fresh.Flags()); err != nil {
		return nil, err
	}
	next := map[string]string{}
	fresh.Flags().VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(r.fixed, f.Name) {
			next[f.Name] = textOf(f)
		}
	})
	if _, err := levelOf(next["log-level"]); next["log-level"] != "" && err != nil {
		return nil, err
	}
	return next, nil
}
