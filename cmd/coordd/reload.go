package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/supervisor"
	"github.com/spf13/pflag"
)

// reloader takes what can change while a member runs from its settings file anew.
type reloader struct {
	path string
	all  map[string]*pflag.Flag // of all commands
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
func (a *app) hangups(flags *pflag.FlagSet, all map[string]*pflag.Flag) *reloader {
	if a.configPath == "" {
		return nil
	}
	r := &reloader{path: a.configPath, all: all, was: map[string]string{},
		asked: make(chan struct{}, 1)}
	flags.VisitAll(func(f *pflag.Flag) {
		r.was[f.Name] = f.Value.String()
		if f.Changed && !slices.ContainsFunc(a.taken, func(s setting) bool {
			return s.file && s.flag == f.Name
		}) {
			r.fixed = append(r.fixed, f.Name)
		}
	})
	ask := func() {
		select {
		case r.asked <- struct{}{}:
		default: // one is asked for already, and will read the file
		}
	}
	onHangup.Store(&ask)
	return r
}

// child is the actor that reloads when it is asked to.
func (r *reloader) child() supervisor.Child {
	return supervisor.Child{Name: "settings-reloader", Run: func(ctx context.Context) error {
		for {
			select {
			case <-r.asked:
				r.reload(ctx)
			case <-ctx.Done():
				return nil
			}
		}
	}}
}

// reload reads the file and applies what can change. A file with an error changes nothing.
func (r *reloader) reload(ctx context.Context) {
	defer r.begun()()
	next, err := r.read(ctx)
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

// reloadLimit is how long the file's disk has to answer. A reload that it did not answer leaves all
// as it is, and the next SIGHUP tries again.
const reloadLimit = 10 * time.Second

// readAgain reads the file. It opens no pipe: it might wait for a writer for ever, and what came
// through one is not there a second time.
func (r *reloader) readAgain(ctx context.Context) ([]fileSetting, error) {
	limited, cancel := context.WithTimeout(ctx, reloadLimit)
	defer cancel()
	info, err := reading(limited, func() (os.FileInfo, error) { return os.Stat(r.path) })
	var settings []fileSetting
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is no regular file: restart coordd to change its settings", r.path)
	default:
		settings, err = readSettings(limited, r.path, r.all)
	}
	if limited.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("the disk of %s has not answered for %v", r.path, reloadLimit)
	}
	return settings, err
}

// read returns the settings that the file and the defaults make, but for those that are fixed.
func (r *reloader) read(ctx context.Context) (map[string]string, error) {
	settings, err := r.readAgain(ctx)
	if err != nil {
		return nil, err
	}
	flags := (&app{}).runCommand().Flags()
	settings = slices.DeleteFunc(settings, func(s fileSetting) bool {
		return slices.Contains(r.fixed, s.name)
	})
	if _, err := setFrom(r.path, settings, flags); err != nil {
		return nil, err
	}
	for _, s := range settings { // of those that can change, what a flag does not find out
		switch s.name {
		case "log-level":
			if _, err := levelOf(s.text()); err != nil {
				return nil, usage("%s:%d: %s is %q: %s", r.path, s.line, s.name, s.text(), levels)
			}
		case "tags":
			if err := actors.CheckTags(s.parts()); err != nil {
				return nil, usage("%s:%d: %v", r.path, s.line, err)
			}
		}
	}
	next := map[string]string{}
	flags.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(r.fixed, f.Name) {
			next[f.Name] = f.Value.String()
		}
	})
	return next, nil
}

// listOf reads a list as its flag shows it: values with commas between, in brackets.
func listOf(text string) ([]string, error) {
	text = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	if text == "" {
		return nil, nil
	}
	return csv.NewReader(strings.NewReader(text)).Read()
}
