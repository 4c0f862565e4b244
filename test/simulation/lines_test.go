package simulation_test

import (
	"slices"
)

// lines are troubles on the way to Consul.
var lines = map[string]script{
	"storm": func(w *world, e episode) []action {
		return w.both(e, func(p *process) {
			p.link.mu.Lock()
			p.link.storms = append(p.link.storms, e.weather)
			p.link.mu.Unlock()
		}, func(p *process) {
			p.link.mu.Lock()
			p.link.storms = slices.DeleteFunc(slices.Clone(p.link.storms), func(x weather) bool {
				return x.rate == e.weather.rate
			})
			p.link.mu.Unlock()
		})
	},
	"cut": func(w *world, e episode) []action {
		return w.cut(e, e.how)
	},
	"deaf": func(w *world, e episode) []action {
		return w.cut(e, "deaf")
	},
	"blind": func(w *world, e episode) []action {
		return w.both(e, func(p *process) { w.destroy(p); p.link.set(e.how) }, func(p *process) {
			p.link.unset(e.how)
		})
	},
	"late-lease": func(w *world, e episode) []action {
		return w.both(e, func(p *process) {
			p.link.mu.Lock()
			p.link.lateLease = 2
			p.link.mu.Unlock()
		}, func(p *process) {
			p.link.mu.Lock()
			p.link.lateLease = 0
			p.link.mu.Unlock()
			p.link.unset("silent")
		})
	},
}
