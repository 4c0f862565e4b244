package main

import (
	"log/slog"
	"strings"

	"github.com/coordd/coordd/actors"
	"github.com/spf13/pflag"
)

// idleSetting is a setting that changes nothing as long as another one is not given.
type idleSetting struct{ flag, needs string }

// idle returns the settings of a member that are without effect beside the others. What came from a
// variable is left out: a variable may be set for a whole host, and for other commands.
func (o *runFlags) idle(flags *pflag.FlagSet, taken taken) []idleSetting {
	works := o.exec != "" || o.holdItems
	needs := map[string]string{}
	unless := func(ok bool, needed string, names ...string) {
		if ok {
			return
		}
		for _, name := range names {
			needs[name] = needed
		}
	}
	unless(o.exec != "", "--exec", "stop-timeout", "pass-env", "restart-wait", "output")
	unless(o.guarded() != actors.NoCheck, "--check-ttl", "publish-items", "tags")
	unless(works, "--exec or --hold-items", "capacity", "worker-soak", "keep-items",
		"publish-items")
	unless(o.http != "", "--http", append(accessNames, "http-host", "pprof")...)
	unless(o.maxRestarts != 0, "--max-restarts", "restart-window")
	unless(o.exec != "", "--exec", "max-restarts", "on-change")
	if o.backend != "none" {
		unless(o.http != "" || o.configLog != "", "--http or --config-log", "backend")
	}
	var found []idleSetting
	flags.VisitAll(func(f *pflag.Flag) {
		if o.route == "" && strings.HasPrefix(f.Name, "route-") {
			needs[f.Name] = "--route"
		}
		if needed := needs[f.Name]; needed != "" && f.Changed && !taken.has(f.Name) {
			found = append(found, idleSetting{f.Name, needed})
		}
	})
	return found
}

// logIdle names them at the start.
func logIdle(log *slog.Logger, idle []idleSetting) {
	for _, s := range idle {
		log.Warn("setting-without-effect", "setting", "--"+s.flag, "needs", s.needs)
	}
}
